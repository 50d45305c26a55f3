"""What the account is drawn up from."""

from pathlib import Path

from app.demo.evidence import ACCEPTED, BEGUN, Diary, Line, accepted_twice, read_diaries


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    Diary(tmp_path / "worker-1.7.diary").write(BEGUN, "t1", 5)
    Diary(tmp_path / "worker-2.8.diary").write(ACCEPTED, "t1", 6)
    assert list(read_diaries(tmp_path)) == [Line(BEGUN, "t1", 5), Line(ACCEPTED, "t1", 6)]
    assert list(read_diaries(tmp_path, "worker-2")) == [Line(ACCEPTED, "t1", 6)]


def test_the_cut_line_of_a_killed_worker_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "worker-1.7.diary").write_bytes(b'["begun", "t1", 5]\n["accep')
    assert list(read_diaries(tmp_path)) == [Line(BEGUN, "t1", 5)]


def test_acceptance_under_two_tokens_is_doubled_and_a_repeated_answer_is_not() -> None:
    lines = [Line(ACCEPTED, "t1", 1), Line(ACCEPTED, "t1", 1), Line(ACCEPTED, "t2", 2), Line(ACCEPTED, "t2", 3)]
    assert accepted_twice([*lines, Line(BEGUN, "t1", 9)]) == {"t2"}
