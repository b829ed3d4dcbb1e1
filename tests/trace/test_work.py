"""FLOP and bytes of operations against counts by hand; rates and shares of ceilings."""

import pytest

from tests.trace.profiles import us, write
from tfperf.measure.hlo import count_work
from tfperf.measure.roofline import Ceilings
from tfperf.trace.attribution import read_attribution
from tfperf.trace.graph_work import TensorSize, count_operation
from tfperf.trace.hlo_names import build_message_class
from tfperf.trace.hlo_work import count_module
from tfperf.trace.notes import NotedWork, Notes, parse_notes, write_notes
from tfperf.trace.planes import load_xplane_proto
from tfperf.trace.work import DeviceLimits, OperationWork, WorkRate, convert_ceilings, estimate_rate, read_limits

F32, F64 = 11, 12
MARK = {"step_num": 0}
LIMITS = convert_ceilings(Ceilings(10.0, 50.0, 100.0, "float32", 2))


def count(kind, inputs, outputs, itemsize=4, **attributes):
    given, made = ([TensorSize(dims, itemsize) for dims in side] for side in (inputs, outputs))
    found = count_operation(kind, given, made, attributes.__getitem__)
    return None if found is None else (found.flops, found.bytes, found.transcendental)


@pytest.mark.parametrize(("kind", "inputs", "outputs", "attributes", "want"), [
    ("MatMul", [(3, 5), (5, 7)], [(3, 7)], {"transpose_a": False}, (2 * 3 * 5 * 7, 4 * (15 + 35 + 21), 0)),
    ("MatMul", [(5, 3), (5, 7)], [(3, 7)], {"transpose_a": True}, (2 * 3 * 5 * 7, 4 * (15 + 35 + 21), 0)),
    ("BatchMatMulV2", [(2, 5, 3), (2, 5, 7)], [(2, 3, 7)], {"adj_x": True}, (2 * 2 * 3 * 5 * 7, 4 * 142, 0)),
    ("Einsum", [(2, 3, 5), (5, 7)], [(2, 3, 7)], {"equation": b"abc,cd->abd"}, (2 * 2 * 3 * 5 * 7, 4 * 107, 0)),
    ("Einsum", [(2, 3), (3, 5)], [(2, 5)], {"equation": b"...b,bc->...c"}, (None, 4 * 31, 0)),
    # 8 pictures, 3 x 3 x 2 -> 6 features
    ("Conv2D", [(8, 9, 9, 2), (3, 3, 2, 6)], [(8, 7, 7, 6)], {},
     (2 * 8 * 7 * 7 * 6 * 18, 4 * (8 * 162 + 108 + 8 * 294), 0)),
    ("Conv2DBackpropInput", [(4,), (3, 3, 2, 6), (8, 7, 7, 6)], [(8, 9, 9, 2)], {},
     (2 * 8 * 7 * 7 * 6 * 18, 4 * (4 + 108 + 8 * 294 + 8 * 162), 0)),
    ("Conv2DBackpropFilter", [(8, 9, 9, 2), (4,), (8, 7, 7, 6)], [(3, 3, 2, 6)], {},
     (2 * 8 * 7 * 7 * 6 * 18, 4 * (8 * 162 + 4 + 8 * 294 + 108), 0)),
    ("DepthwiseConv2dNative", [(1, 9, 9, 2), (3, 3, 2, 4)], [(1, 7, 7, 8)], {},
     (2 * 49 * 8 * 9, 4 * (162 + 72 + 392), 0)),
    ("AddV2", [(4, 5), (5,)], [(4, 5)], {}, (20, 4 * 45, 0)),
    ("Tanh", [(4, 5)], [(4, 5)], {}, (0, 4 * 40, 20)),
    ("Sum", [(4, 5), (1,)], [(4,)], {}, (20, 4 * 25, 0)),
    ("GatherV2", [(1000, 8), (3,), ()], [(3, 8)], {}, (0, 4 * (2 * 24 + 3 + 1), 0)),
    ("AssignSubVariableOp", [(4, 5), (4, 5)], [], {}, (20, 4 * 60, 0)),
    # variable and two slots in and out, the gradient in; lr and its like are of no account
    ("ResourceApplyAdam", [(4, 5)] * 3 + [()] * 6 + [(4, 5)], [], {}, (12 * 20, 4 * 20 * 7, 0)),
    ("MaxPool", [(1, 4, 4, 2)], [(1, 2, 2, 2)], {"ksize": [1, 2, 2, 1]}, (4 * 8, 4 * 40, 0)),
    ("AddN", [(5,)] * 3, [(5,)], {}, (10, 4 * 20, 0)),
    ("FusedBatchNormV3", [(5,)], [(5,)], {}, (None, 4 * 10, 0)),
    ("Identity", [(5,)], [(5,)], {}, None),
])  # fmt: skip
def test_work_of_graph_operations_is_that_of_a_count_by_hand(kind, inputs, outputs, attributes, want):
    assert count(kind, inputs, outputs, **attributes) == want


def make_module(name="m"):
    """A product of 64 x 32 and 32 x 16, a fusion that adds a row and takes the tanh, a convolution in float64."""
    module = build_message_class()().hlo_module
    module.name, module.entry = name, "main"

    def add(computation, number, name, opcode, dims, operands=(), kind=F32, **more):
        one = computation.instructions.add(id=number, name=name, opcode=opcode, operand_ids=operands, **more)
        one.shape.element_type = kind
        one.shape.dimensions.extend(dims)
        return one

    fused = module.computations.add(id=1, name="fused", root_id=4)
    add(fused, 1, "p0", "parameter", (64, 16), parameter_number=0)
    add(fused, 2, "p1", "parameter", (64, 16), parameter_number=1)
    add(fused, 3, "sum", "add", (64, 16), (1, 2))
    add(fused, 4, "tanh", "tanh", (64, 16), (3,))
    main = module.computations.add(id=2, name="main", root_id=14)
    add(main, 10, "x", "parameter", (64, 32), parameter_number=0)
    add(main, 11, "w", "parameter", (32, 16), parameter_number=1)
    dot = add(main, 12, "dot.1", "dot", (64, 16), (10, 11))
    dot.dot.lhs_contracting.append(1)
    dot.dot.rhs_contracting.append(0)
    add(main, 14, "fusion.1", "fusion", (64, 16), (12, 12), called_computation_ids=[1])
    add(main, 15, "image", "parameter", (8, 9, 9, 2), kind=F64, parameter_number=2)
    add(main, 16, "kernel", "parameter", (3, 3, 2, 6), kind=F64, parameter_number=3)
    found = add(main, 17, "convolution.1", "convolution", (8, 7, 7, 6), (15, 16), kind=F64)
    for _ in range(2):
        found.window.dimensions.add(size=3, stride=1, base_dilation=1)
    found.convolution.kernel_input_feature, found.convolution.kernel_output_feature = 2, 3
    found.convolution.kernel_spatial.extend([0, 1])
    add(main, 18, "fft.1", "fft", (64,), (12,))
    return module


def test_work_of_instructions_is_that_of_a_count_by_hand():
    want = {
        "dot.1": OperationWork(2 * 64 * 32 * 16, 4 * (64 * 32 + 32 * 16 + 64 * 16)),
        # the arithmetic of what it fuses, its own inputs and outputs
        "fusion.1": OperationWork(64 * 16, 3 * 4 * 64 * 16, 64 * 16),
        "convolution.1": OperationWork(
            2 * 8 * 7 * 7 * 6 * 18, 8 * (8 * 162 + 108 + 8 * 294), precision="float64"
        ),
    }  # fmt: skip
    found = count_module(make_module())
    assert {name: found[name] for name in want} == want and "fft.1" not in found
    assert set(count_module(make_module(), {"dot.1"})) == {"dot.1"}


def test_text_of_a_convolution_gives_the_same_and_zeros_of_a_dilated_input_are_left_out():
    text = """ENTRY %main {
  %x = f32[8,7,7,6] parameter(0)
  %k = f32[3,3,2,6] parameter(1)
  ROOT %y = f32[8,14,14,2] convolution(%x, %k), window={size=3x3 pad=2_2x2_2 WHAT}, dim_labels=b01f_01oi->b01f
}
"""
    assert count_work(text.replace(" WHAT", "")).flops == 2 * 8 * 14 * 14 * 2 * 9 * 6
    assert count_work(text.replace("WHAT", "lhs_dilate=2x2")).flops == 2 * 8 * 14 * 14 * 2 * 9 * 6 / 4
    with pytest.raises(ValueError, match="labels"):
        count_work(text.replace(", dim_labels=b01f_01oi->b01f", ""))


def test_a_module_that_makes_no_sense_has_no_work():
    module = make_module()
    module.computations[1].instructions[2].operand_ids[0] = 99
    assert count_module(module) == {}


def test_an_operation_is_bound_by_the_ceiling_that_it_reaches_to_half():
    big = 1e8  # bytes, beyond all caches
    assert LIMITS.cached_bytes == 2 * 2**20
    compute = estimate_rate(OperationWork(1e9, big), 2, 25.0, LIMITS)
    assert (compute.flops, compute.bytes, compute.bound) == (2e9, 2 * big, "compute")
    assert (compute.gflops, compute.gb_s, compute.share) == pytest.approx((80, 8, 0.8))
    memory = estimate_rate(OperationWork(1e8, big), 1, 12.5, LIMITS)
    assert memory.share == pytest.approx(0.8) and memory.bound == "memory"
    overhead = estimate_rate(OperationWork(1e8, big), 1, 25.0, LIMITS)
    assert overhead.share == pytest.approx(0.4) and overhead.bound == "overhead"


def test_small_arrays_are_held_against_the_caches():
    work = OperationWork(0.0, 2 * 2**20)
    ms = 1e3 * work.bytes / 50e9
    assert estimate_rate(work, 1, ms, LIMITS).share == pytest.approx(1)
    assert estimate_rate(OperationWork(0.0, 2 * 2**20 + 8), 1, ms, LIMITS).share == pytest.approx(5, rel=1e-4)
    cold = estimate_rate(work, 1, 5 * ms / 0.9, LIMITS)  # at 0.9 of the memory's bandwidth: whence it came nobody knows
    assert cold.share == pytest.approx(0.18) and cold.bound is None
    assert estimate_rate(work, 1, 5 * ms / 0.4, LIMITS).bound == "overhead"


def test_what_is_not_known_is_not_told():
    assert estimate_rate(None, 1, 1.0, LIMITS) == WorkRate()
    assert estimate_rate(OperationWork(1e9, 1e8), 1, 0.0, LIMITS) == WorkRate()
    assert estimate_rate(OperationWork(1e9, 1e8), 1, 100.0, None) == WorkRate(1e9, 1e8, 10.0, 1.0)
    # bytes alone explain less than half of the time: what the rest is, nobody knows
    for work in (OperationWork(None, 1e8), OperationWork(0.0, 1e8, transcendental=1e7)):
        found = estimate_rate(work, 1, 25.0, LIMITS)
        assert found.share == pytest.approx(0.4) and found.bound is None
        assert estimate_rate(work, 1, 12.5, LIMITS).bound == "memory"
    assert estimate_rate(OperationWork(1e9, 1e8), 1, 25.0, DeviceLimits(None, 10.0)).bound is None


def test_a_gpu_has_the_ceilings_of_its_plane():
    space = load_xplane_proto().XSpace()
    space.planes.add(name="/device:GPU:1")
    plane = space.planes.add(name="/device:GPU:0")
    for number, (name, value) in enumerate({"peak_teraflops_per_second": 60.0, "memory_bandwidth": 4.8e12}.items(), 1):
        plane.stat_metadata[number].id, plane.stat_metadata[number].name = number, name
        plane.stats.add(metadata_id=number, double_value=value)
    assert read_limits(space) == {"GPU:0": DeviceLimits(60e3, 4.8e3, sheet=True)}


def test_gpus_of_several_hosts_have_each_its_own_ceilings(tmp_path):
    for number, host in enumerate("ab", 1):
        lines = {"p": us(("train", 0, 100, {"step_num": 0}))}
        stream = {"s": us(("sgemm", 0, 50, {"tf_op": "dense/MatMul:MatMul"}))}
        path = write(tmp_path / f"{host}.xplane.pb", {"/host:CPU": lines, "/device:GPU:0": stream})
        space = load_xplane_proto().XSpace.FromString(path.read_bytes())
        plane = space.planes[1]
        plane.stat_metadata[99].id, plane.stat_metadata[99].name = 99, "memory_bandwidth"
        plane.stats.add(metadata_id=99, double_value=number * 1e12)
        path.write_bytes(space.SerializeToString())
    found = read_attribution(tmp_path)
    assert {name: one.memory_gb_s for name, one in found.limits.items()} == {"a GPU:0": 1e3, "b GPU:0": 2e3}
    assert {cost.device for cost in found.costs} == set(found.limits)


def test_operations_of_a_profile_have_the_work_that_is_noted(tmp_path):
    """Whatever calls their function, and whatever kernel runs them; overlapping events count once as time."""
    main = [("StatefulPartitionedCall/while/body/_7/dense/Relu:_FusedMatMul", 100 * i, 40) for i in range(2)]
    pool = [("StatefulPartitionedCall/while/body/_7/dense/Relu:_FusedMatMul", 100 * i + 20, 30) for i in range(2)]
    python = [("train", 0, 200, MARK)]
    noted = {"name": "dense/Relu", "kind": "FusedMatMul", "flops": 1e6, "bytes": 2e3}
    notes = parse_notes({"own": True, "turns": 2, "work": [noted]})
    lines = {"p": us(*python), "m": us(*main), "n": us(*pool)}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), notes)
    (cost,) = found.costs
    assert cost.work == OperationWork(1e6, 2e3) and cost.executions == 4 / len(found.steps)
    assert cost.busy_ms * len(found.steps) == pytest.approx(0.1) and cost.ms * len(found.steps) == pytest.approx(0.14)
    plain = parse_notes({"own": True, "work": [{**noted, "kind": "Relu"}]})
    found = read_attribution(tmp_path / "vm.xplane.pb", plain)
    assert found.costs[0].work is None, "what is fused is not what its last part would be alone"


def test_kernels_of_one_operation_on_an_accelerator_are_one_execution(tmp_path):
    kernels = [(name, 100 * i + k, 10, {"tf_op": "dense/MatMul:MatMul"})
               for i in range(3) for k, name in ((0, "sgemm"), (20, "splitk_reduce"))]  # fmt: skip
    planes = {"/host:CPU": {"p": us(("train", 0, 300, MARK))}, "/device:GPU:0": {"Stream #1": us(*kernels)}}
    (cost,) = read_attribution(write(tmp_path / "vm.xplane.pb", planes)).costs
    assert cost.count == 6 and cost.executions == 3


def test_notes_keep_work_and_older_ones_are_read(tmp_path):
    from tfperf.trace.notes import FILE, read_notes

    path = write(tmp_path / "vm.xplane.pb", {})
    notes = Notes(own=True, cpu="x", cores=2, threads=2, work=(NotedWork("a", "MatMul", None, 3.0, 0.0, "float64"),))
    write_notes(tmp_path, notes)
    assert read_notes(path) == notes
    (tmp_path / FILE).write_text('{"own": true, "cores": 2}')
    assert read_notes(path).work == () and read_notes(path).cpu == ""
