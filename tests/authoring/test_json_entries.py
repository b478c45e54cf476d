"""Recorded data as JSON with an entry per line: `autograder/authoring/json_entries.py`."""

import json

from autograder.authoring import json_entries

LONG = list(range(60))


def test_each_entry_is_a_line_and_keys_are_sorted():
    value = {"b": {"y": {"z": LONG, "a": "π"}, "x": [1]}, "a": 1}
    assert json_entries.text_of(value) == (
        '{\n "a": 1,\n "b": {\n  "x": [1],\n  "y": {"z": '
        + json.dumps(LONG)
        + ', "a": "π"}\n }\n}\n'
    )
    assert json_entries.text_of(value, levels=1) == (
        '{\n "a": 1,\n "b": {"y": {"z": ' + json.dumps(LONG) + ', "a": "π"}, "x": [1]}\n}\n'
    )
    assert json_entries.text_of([LONG, 2], levels=1) == f"[\n {json.dumps(LONG)},\n 2\n]\n"


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "data" / "found.json"
    for value in ({"a": LONG}, {}):
        json_entries.write(path, value)
        assert json.loads(path.read_text(encoding="utf-8")) == value
    assert [entry.name for entry in path.parent.iterdir()] == ["found.json"]
