"""Files are written completely or not at all."""

import errno

import pytest

from autograder.checking import files


def test_what_cannot_be_written_leaves_the_old_file_and_is_named(tmp_path):
    path = tmp_path / "deadlines.toml"
    files.write(path, "old")
    with pytest.raises(OSError) as raised, files.replaced(path) as building:
        building.write_text("new")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "old"
