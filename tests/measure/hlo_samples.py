"""Optimized HLO text, written out."""

CHAIN = """HloModule chain, is_scheduled=true, entry_computation_layout={(f32[20,30]{1,0})->f32[20,10]{1,0}}

%fused (p: f32[20,10]) -> f32[20,10] {
  %p = f32[20,10]{1,0} parameter(0)
  %zero = f32[] constant(0)
  %zeros = f32[20,10]{1,0} broadcast(%zero), dimensions={}
  ROOT %max = f32[20,10]{1,0} maximum(%p, %zeros)
}

ENTRY %main (a: f32[20,30], b: f32[30,40], c: f32[40,10]) -> f32[20,10] {
  %a = f32[20,30]{1,0} parameter(0)
  %b = f32[30,40]{1,0} parameter(1)
  %c = f32[40,10]{1,0} parameter(2)
  %ab = f32[20,40]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  abc = f32[20,10]{1,0} dot(f32[20,40]{1,0} ab, f32[40,10]{1,0} %c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %relu = f32[20,10]{1,0} fusion(%abc), kind=kLoop, calls=%fused, metadata={op_name="a) = { /* \\" calls=%none"}
}
"""

# an unbounded loop around a loop of 5 turns; a reduction and its division after each of the latter
LOOPS = """HloModule loops, is_scheduled=true

%tanh_of (p0: f64[6,4], p1: f64[6]) -> f64[6,4] {
  %p0 = f64[6,4]{1,0} parameter(0)
  %p1 = f64[6]{0} parameter(1)
  %wide = f64[6,4]{1,0} broadcast(%p1), dimensions={0}
  %ratio = f64[6,4]{1,0} divide(%p0, %wide)
  ROOT %t = f64[6,4]{1,0} tanh(%ratio)
}

%add_up (x: f64[], y: f64[]) -> f64[] {
  %x = f64[] parameter(0)
  %y = f64[] parameter(1)
  ROOT %sum = f64[] add(%x, %y)
}

%inner (state: (s32[], f64[6,4], f64[4,4])) -> (s32[], f64[6,4], /*index=2*/f64[4,4]) {
  %state = (s32[], f64[6,4]{1,0}, f64[4,4]{1,0}) parameter(0)
  %one = s32[] constant(1)
  %i = s32[] get-tuple-element(%state), index=0
  %y = f64[6,4]{1,0} get-tuple-element(%state), index=1
  %w = f64[4,4]{1,0} get-tuple-element(%state), index=2
  %next = s32[] add(%i, %one)
  %yw = f64[6,4]{1,0} dot(%y, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %out = (s32[], f64[6,4]{1,0}, f64[4,4]{1,0}) tuple(%next, %yw, /*index=2*/%w)
}

%less (state.1: (s32[], f64[6,4], f64[4,4])) -> pred[] {
  %state.1 = (s32[], f64[6,4]{1,0}, f64[4,4]{1,0}) parameter(0)
  %five = s32[] constant(5)
  %i.1 = s32[] get-tuple-element(%state.1), index=0
  ROOT %lt = pred[] compare(%i.1, %five), direction=LT
}

%outer (state.2: (s32[], f64[6,4], f64[4,4])) -> (s32[], f64[6,4], f64[4,4]) {
  %state.2 = (s32[], f64[6,4]{1,0}, f64[4,4]{1,0}) parameter(0)
  %zero = f64[] constant(0)
  %turns = (s32[], f64[6,4]{1,0}, f64[4,4]{1,0}) while(%state.2), condition=%less, body=%inner,\
 backend_config={"known_trip_count":{"n":"5"},"known_init_step":{"init":"0","step":"1"}}
  %i.2 = s32[] get-tuple-element(%turns), index=0
  %y.2 = f64[6,4]{1,0} get-tuple-element(%turns), index=1
  %w.2 = f64[4,4]{1,0} get-tuple-element(%turns), index=2
  %rows = f64[6]{0} reduce(%y.2, %zero), dimensions={1}, to_apply=%add_up
  %new = f64[6,4]{1,0} fusion(%y.2, %rows), kind=kLoop, calls=%tanh_of
  ROOT %out.2 = (s32[], f64[6,4]{1,0}, f64[4,4]{1,0}) tuple(%i.2, %new, %w.2)
}

%always (state.3: (s32[], f64[6,4], f64[4,4])) -> pred[] {
  %state.3 = (s32[], f64[6,4]{1,0}, f64[4,4]{1,0}) parameter(0)
  ROOT %true = pred[] constant(true)
}

ENTRY %main (n: s32[], y.4: f64[6,4], w.4: f64[4,4]) -> f64[6,4] {
  %n = s32[] parameter(0)
  %y.4 = f64[6,4]{1,0} parameter(1)
  %w.4 = f64[4,4]{1,0} parameter(2)
  %start = (s32[], f64[6,4]{1,0}, f64[4,4]{1,0}) tuple(%n, %y.4, %w.4)
  %forever = (s32[], f64[6,4]{1,0}, f64[4,4]{1,0}) while(%start), condition=%always, body=%outer
  ROOT %end = f64[6,4]{1,0} get-tuple-element(%forever), index=1
}
"""


def entry(*lines, before=""):
    return "HloModule m\n\n" + before + "ENTRY %main () -> f32[] {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
