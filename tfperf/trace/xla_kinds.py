"""Operations that XLA cannot compile, or that it computes slower than TensorFlow on a processor."""

import re
from collections.abc import Sequence

from tfperf.trace.costs import OperationCost
from tfperf.trace.phases import strip_kind

# kinds without a kernel of XLA's in TensorFlow 2.21, of those that a step may have: no function with one is compiled
ABSENT = re.compile(
    r"MatrixDeterminant|LogMatrixDeterminant|Lu|MatrixSolveLs|MatrixSquareRoot|MatrixLogarithm|Eig|BandedTriangularSolve"
    r"|UniqueWithCounts(V2)?|SparseTensorDenseMatMul|SparseReduceSum|SparseReduceMax|SparseSoftmax|SparseAdd|SparseConcat"
    r"|SparseSegment(Sum|Mean|SqrtN)(Grad|GradV2|WithNumSegments)?|Segment(Sum|Mean|Max|Min|Prod)|RaggedTensorTo(Tensor|Sparse)"
    r"|RaggedRange|RaggedGather|PyFunc|PyFuncStateless|EagerPyFunc|RandomGamma|RandomPoisson(V2)?|StatelessRandomGammaV[23]"
    r"|StatelessRandomPoisson|StatelessRandomBinomial|StatefulRandomBinomial|StatelessShuffle|CropAndResize(GradBoxes)?"
    r"|MaxPoolWithArgmax|MaxPoolGradWithArgmax|Dilation2D(Backprop(Input|Filter))?|Resize(Bicubic|BicubicGrad|Area)"
    r"|ResizeNearestNeighborGrad|ImageProjectiveTransformV[23]|Bessel(I|J|K|Y)[01]|BesselK[01]e|CTCLoss|EditDistance"
    r"|HistogramFixedWidth|InTopK|NonMaxSuppression|NonMaxSuppressionV5|CombinedNonMaxSuppression|LookupTableFindV2"
    r"|PrintV2|StringFormat|AsString|EuclideanNorm|BlockLSTM(Grad)?(V2)?|ResourceSparseApply(Adagrad|AdagradV2|Ftrl|FtrlV2|RMSProp"
    r"|Momentum|KerasMomentum)"
)
# kinds that take XLA at least twice as long on a processor: how many times, by `python -m benchmarks run xla-kinds`
TIMES = {
    "Svd": 160.0, "DepthwiseConv2dNative": 35.0, "Cholesky": 27.0, "DepthwiseConv2dNativeBackpropInput": 23.0,
    "ResizeBilinear": 17.0, "SelfAdjointEigV2": 10.0, "DepthwiseConv2dNativeBackpropFilter": 7.0, "RandomUniform": 5.0,
    "MatrixSolve": 5.0, "Betainc": 4.0, "RandomStandardNormal": 3.0, "MatrixInverse": 3.0, "TruncatedNormal": 2.5,
    "StatelessRandomNormalV2": 2.5, "MatrixTriangularSolve": 2.5, "StatelessRandomUniformV2": 2.0,
}  # fmt: skip


def list_absent(costs: Sequence[OperationCost]) -> list[str]:
    """Kinds among operations that XLA cannot compile, the longest first."""
    kinds = (_name_kind(one) for one in sorted(costs, key=lambda one: -one.ms))
    return list(dict.fromkeys(kind for kind in kinds if ABSENT.fullmatch(kind)))


def list_slower(costs: Sequence[OperationCost]) -> dict[str, float]:
    """By kind, how many ms a step more XLA takes for operations on a processor than TensorFlow; the longest first."""
    more: dict[str, float] = {}
    for one in costs:
        kind = _name_kind(one)
        if kind in TIMES:
            more[kind] = more.get(kind, 0.0) + (TIMES[kind] - 1) * one.ms
    return dict(sorted(more.items(), key=lambda item: -item[1]))


def _name_kind(cost: OperationCost) -> str:
    """As a program writes it: TensorFlow makes one operation of some with what is added to them."""
    return strip_kind(cost.kind).removeprefix("Fused")
