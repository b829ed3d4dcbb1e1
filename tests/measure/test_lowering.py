import tensorflow as tf

from tfperf.measure.lowering import Lowering, canonicalise


def digest(constant, name):
    def steps(x):
        return tf.while_loop(lambda i, _: i < constant, lambda i, y: (i + 1, tf.tanh(y)), (0, x), name=name)[1]

    return Lowering(tf.function(steps, jit_compile=True, autograph=False), tf.ones([3])).digest


def test_a_program_is_told_by_what_it_does_not_by_its_names():
    first = digest(5, "first")
    assert digest(5, "second") == first
    assert digest(6, "first") != first


def test_names_are_numbered_as_they_appear():
    text = 'HloModule a_3.1, entry={f32[]}\n%x.7 = f32[] add(%a.b-1, %x.2), metadata={op_name="x" source_line=3}\n'
    assert canonicalise(text) == "HloModule, entry={f32[]}\n%0 = f32[] add(%1, %2)\n"
    assert canonicalise(text.replace("x.7", "z_8_").replace("op_name", "scope")) == canonicalise(text)
    assert canonicalise(text.replace("%x.2", "%x.7")) != canonicalise(text)
