"""Keys that stand twice in one object of a configuration: the last value is read, and said to be."""

from ropewalk import read

CONFIG = '{"model_type": "llama", "head_dim": 8, "num_hidden_layers": 1, "rope_theta": 1, "rope_theta": 2, "x": [%s]}'


def repeated(path):
    return [one for one in read(path).findings if one.name == "key-repeated"]


def test_the_last_value_is_read_from_a_file_and_the_first_is_told(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(CONFIG % "")
    assert read(path).rope.rope_theta == 2
    (one,) = repeated(path)
    assert (one.code, one.severity, one.where) == ("RW146", "warning", "text: rope_theta")
    assert one.seen == "1, 2: 2 values"


def test_keys_of_inner_objects_are_told_by_their_path(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(
        '{"model_type": "llama", "head_dim": 8, "num_hidden_layers": 1, "rope_parameters": '
        '{"rope_type": "linear", "factor": 2, "rope_theta": 1e4, "factor": 4}, "x": [[{"y": 1, "y": 1}]]}'
    )
    assert read(path).rope.scaling.factor == 4
    assert {one.where for one in repeated(path)} == {"text: rope_parameters.factor", "text: x.0.0.y"}


def test_equal_keys_of_different_objects_are_no_repetition(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "rope_theta": 1e4, "x": {"rope_theta": 1}, "z": [{"a": 1}, {"a": 2}]}')
    assert repeated(path) == []


def test_a_thousand_repetitions_are_told_a_hundred_times(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(CONFIG % ", ".join(['{"a": 1, "a": 2}'] * 1000))
    assert len(repeated(path)) == 100
