"""The figure of chapter 11 counts what the chapter's Python counts; its tables are of what was measured, no more."""

import json

import figure_tools
import numpy as np
import pytest
from figures import gpu as figure

PAGE = "/book/11-gpu.html"
FIGURE = ".abh-gpu"
SIZES = {
    "n": figure.N,
    "d": figure.WIDTH,
    "size": figure.SIZE,
    "sum_size": figure.SUM_SIZE,
    "limits": figure.LIMITS,
}
# Made up: what a whole record would look like. Not one of these numbers is in the book.
ROW = {
    "heads": 16,
    "batch": 1,
    "d_head": 64,
    "causal": True,
    "dtype": "bfloat16",
    "tflop_s": 333.0,
    "peak_bytes": 2**20,
}
RECORD = {
    "machine": {"device": "a card", "torch": "9+x", "triton": "8", "date": "2026-01-01", "memory_gb": 80},
    "ceilings": {
        "copy_gb_s": 1000.0,
        "matmul_tflop_s": {"float32": 10.0, "tf32": 100.0, "float16": 190.0, "bfloat16": 200.0},
    },
    "attention": [
        ROW | {"implementation": name, "n": n, "direction": "forward", "milliseconds": base * n / 4096}
        for name, base in (("kernel", 2.0), ("flash", 1.0), ("math", 9.0))
        for n in (4096, 8192)
    ],
    "layer": [
        ROW
        | {"implementation": name, "n": 4096, "direction": "forward+backward", "d_model": 2048, "milliseconds": base}
        for name, base in (("layer", 3.0), ("nn.MultiheadAttention with weights", 12.0))
    ],
    "leaderboard": {
        "batch": 1, "heads": 16, "n": 16384, "d_head": 64, "dtype": "bfloat16",
        "rows": [ROW | {"implementation": "kernel", "milliseconds": 7.77}],
        "cited_milliseconds": {"naive": 80.0, "best": 5.4, "where": "somewhere"},
    },
    "accuracy": [{"implementation": "kernel", "dtype": "float16", "causal": True, "quantity": "dq", "error": 4.4e-4}],
    "memory_exponent": {"layer": {"layer": {"forward": {"exponent": 1.01}, "forward+backward": {"exponent": 1.02}}}},
    "timing": {"what": "a product", "first_call": 99.0, "without_waiting": 0.01, "with_waiting": 1.2, "events": 1.1,
               "events_zeros": 0.9},
    "trace": [{"implementation": "layer", "n": 4096, "kernel": "a kernel", "us": 12.0}],
    "window": [{"window": 64, "direction": "forward", "milliseconds": 0.123}],
    "tuning": [
        {"kernel": "forward", "d_head": 64, "queries": 32, "keys": 16, "warps": 4, "stages": 1, "milliseconds": ms,
         "tflop_s": 100 / ms}
        for ms in (2.0, 1.0)
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def course():
    """The functions of the chapter, taken from the page itself."""
    return figure_tools.of_chapter("11-gpu")


def states():
    for rows in figure.SIDES:
        for columns in figure.SIDES:
            for causal in (False, True):
                yield figure.START | {"rows": rows, "columns": columns, "causal": causal}


def in_python(course, state):
    """All that the figure shows of one state: walked tile by tile, and compared with the chapter's functions."""
    n, d, size = figure.N, figure.WIDTH, figure.SIZE
    rows, columns = state["rows"], state["columns"]
    walk, skipped = [], 0
    for i in range(0, n, rows):
        seen = [j for j in range(0, n, columns) if not state["causal"] or (np.arange(i, i + rows) >= j).any()]
        skipped += n // columns - len(seen)
        walk += [(rows * d * (j == seen[0]) + 2 * columns * d, rows * d * (j == seen[-1])) for j in seen]
    whole = [(2 * n * d, n * n), (n * n, n * n), (n * n + n * d, n * d)]
    assert size * np.sum(walk) == course["tiled_bytes"](n, d, size, rows, columns, state["causal"])
    assert size * np.sum(whole) == course["naive_bytes"](n, d, size)
    steps = whole if state["way"] == "naive" else walk
    read, written = size * np.sum(steps[: state["step"]], axis=0) if state["step"] else (0, 0)
    held = [size * rows * d, size * columns * d, size * columns * d, 4 * rows * columns, 4 * rows * d]
    return {"steps": len(steps), "read": read, "written": written, "held": held, "skipped": skipped}


def check_equal(answer, expected):
    assert (answer["steps"], answer["skipped"]) == (expected["steps"], expected["skipped"])
    assert (answer["moved"]["read"], answer["moved"]["written"]) == (expected["read"], expected["written"])
    held = expected["held"]
    assert answer["held"] == held and answer["rooms"] == [sum(held[:3]), sum(held[3:])]
    assert answer["fits"] == (sum(held[:3]) <= 228 * 1024 and sum(held[3:]) <= 256 * 1024)


# ---- under node ------------------------------------------------------------------------------------------


def test_what_is_moved_equals_the_chapters_count(course, tmp_path):
    wanted = []
    for state in states():
        steps = in_python(course, state)["steps"]
        wanted += [state | {"step": step} for step in {0, 1, 2, steps // 2, steps - 1, steps}]
        wanted += [state | {"way": "naive", "step": step} for step in range(4)]
    cases = [{"state": state, "sizes": SIZES} for state in wanted]
    answers = figure_tools.in_node(tmp_path, "gpu", "m.look(c.state, c.sizes)", cases)
    for state, answer in zip(wanted, answers, strict=True):
        check_equal(answer, in_python(course, state))


def test_causal_tiles_are_those_that_a_query_of_theirs_may_see(tmp_path):
    cases = [{"state": state, "sizes": SIZES} for state in states() if state["causal"]]
    seen = np.tril(np.ones((figure.N, figure.N), dtype=bool))
    for case, found in zip(
        cases, figure_tools.in_node(tmp_path, "gpu", "m.tiles(c.state, c.sizes)", cases), strict=True
    ):
        rows, columns = case["state"]["rows"], case["state"]["columns"]
        some = seen.reshape(figure.N // rows, rows, figure.N // columns, columns).any((1, 3))
        assert [(tile["i"], tile["j"]) for tile in found] == [tuple(map(int, at)) for at in np.argwhere(some)]
        assert sum(tile["first"] for tile in found) == sum(tile["last"] for tile in found) == figure.N // rows


def test_bytes_have_units(tmp_path):
    said = figure_tools.in_node(tmp_path, "gpu", "[m.inBytes(c), m.inKiB(c)]", [96, 65_536, 8_912_896])
    assert said == [["96 bytes", "0 KiB"], ["66 KB", "64 KiB"], ["8.9 MB", "8,704 KiB"]]


def test_each_thing_to_try_is_what_the_page_says_of_it(course):
    first, end, naive, low, high, causal = (in_python(course, state) for state in figure.TRIES)
    assert first["written"] == 0 and first["read"] == 2 * 3 * 128 * 64
    assert figure.TRIES[1]["step"] == end["steps"] and figure.TRIES[2]["step"] == naive["steps"] == 3
    assert figure.TRIES[3]["step"] == low["steps"] and figure.TRIES[4]["step"] == high["steps"]
    queries = 2 * figure.N * figure.WIDTH
    assert low["read"] - queries == 2 * (end["read"] - queries) == 4 * (high["read"] - queries)
    assert sum(high["held"]) > 1.5 * sum(end["held"])
    assert causal["skipped"] == 28 and 0 < figure.TRIES[5]["step"] < causal["steps"] == 36
    wider = in_python(course, figure.TRIES[1] | {"columns": 256, "step": 32})
    assert (wider["read"], wider["written"]) == (end["read"], end["written"])


def test_the_figure_refuses_what_it_cannot_show():
    for wrong in ({"rows": 100}, {"way": "other"}):
        with pytest.raises(ValueError, match="one of the figure's choices"):
            figure.TilesFigure(state=figure.START | wrong)


# ---- what was measured on a GPU, and what was not ----------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"machine": RECORD["machine"]},
        {"machine": RECORD["machine"], "attention": [], "leaderboard": RECORD["leaderboard"] | {"rows": []}},
    ],
)
def test_what_was_not_measured_does_not_appear_and_one_box_says_what_measures_it(record):
    assert [figure.table(record, title) for title in figure.LEADS] == [None] * len(figure.LEADS)
    assert figure.tuned(record) is figure.speeds(record) is figure.roof(record, []) is None
    said = figure.box(record).data
    assert "benchmarks/gpu.py" in said and all(words in said for words in figure.PARTS.values())


def test_of_a_record_in_part_what_was_measured_appears():
    record = {"machine": RECORD["machine"], "ceilings": RECORD["ceilings"], "layer": RECORD["layer"]}
    shown = {title for title in figure.LEADS if figure.table(record, title)}
    assert shown == {"Ceilings", "The layer", "Goals"}
    assert figure.table(record, "Goals").data.count("\n| ") == 3  # head, line, and the one goal that was measured
    assert figure.PARTS["layer"] not in figure.box(record).data


def test_a_record_fills_the_tables(tmp_path, monkeypatch):
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps(RECORD), encoding="utf8")
    record = json.loads(path.read_text(encoding="utf8"))
    for title, lead in figure.LEADS.items():
        lines = figure.table(record, title).data.splitlines()
        assert lines[0] == lead and len([line for line in lines if line.startswith("| ")]) > 2, title
    assert figure.box(record) is None and ":class: dropdown" in figure.table(record, "Attention", folded=True).data
    assert "7.77 ms" in figure.table(record, "The leaderboard's configuration").data
    assert "4.4e-04" in figure.table(record, "Accuracy").data
    goals = figure.table(record, "Goals").data
    assert "| 2.00 | at most 1.50 | missed by 33% |" in goals and "| 4.00 | at least 3.00 | met |" in goals
    assert not [
        line
        for line in figure.table(record, "The leaderboard's configuration").data.splitlines()
        if line.startswith("| batch")
    ]  # a heading that pushes its column off a phone
    assert len(figure.tuned(record).data.splitlines()) == 3
    quick, slow = figure.tuned(record, top=2).data.splitlines()[2:]
    assert "1.000 | 100" in quick and "2.000 | 50" in slow
    said = figure.told(record)
    assert (said["tuned_forward_64"], said["tuned_rows"], said["tuned_roof"]) == ("100", "32", "32")
    assert (said["card"], said["ridge_bfloat16"], said["faster"]) == (
        "a card, torch 9, triton 8, 2026-01-01",
        "200",
        "20",
    )
    assert said["tuned_share"] == "50%"
    shown = []
    monkeypatch.setattr(figure.drawing, "show", lambda *axes: shown.append(axes))
    assert figure.speeds(record) is None and figure.roof(record, [("naive", 32)]) is None
    lines = {line.get_label(): line for line in shown[0][0].get_lines()}
    assert set(lines) == {"kernel", "flash", "math"}
    np.testing.assert_array_equal(lines["kernel"].get_xydata(), [[4096, 2.0], [8192, 4.0]])
    (mark,) = [line for line in shown[1][0].get_lines() if line.get_label() == "naive"]
    np.testing.assert_allclose(mark.get_xydata(), [[32, 32]])
    figure.drawing.plt.close("all")


# ---- in the browser --------------------------------------------------------------------------------------


def shown(page):
    """What the figure shows: exact numbers, and what is drawn and written."""
    return page.evaluate("""() => {
      const root = document.querySelector(".abh-gpu");
      const all = (name, of) => [...root.querySelectorAll(name)].map(of);
      return {
        now: JSON.parse(root.dataset.now),
        tiles: Object.fromEntries(["now", "past", "todo", "skipped", "scores", "weights"].map(
          (kind) => [kind, root.querySelectorAll(`.abh-tile.abh-${kind}`).length])),
        rows: root.querySelectorAll(".abh-of-z.abh-lit").length,
        read: all(".abh-bar .abh-read", (bar) => parseFloat(bar.style.width)),
        written: all(".abh-bar .abh-written", (bar) => parseFloat(bar.style.width)),
        pressed: all(".abh-tries button", (node) => node.getAttribute("aria-pressed") === "true"),
        step: root.querySelector(".abh-slider output").textContent,
        label: root.querySelector("svg").getAttribute("aria-label"),
      };
    }""")


def check_shown(page, course, **wanted):
    """The figure is in the state that is wanted, and all it shows follows from that."""
    one = shown(page)
    state = one["now"].pop("state")
    for name, value in wanted.items():
        assert state[name] == value, name
    expected = in_python(course, state)
    check_equal(one["now"], expected)
    whole = course["naive_bytes"](figure.N, figure.WIDTH, figure.SIZE)
    assert one["read"][0] == pytest.approx(100 * expected["read"] / whole, abs=0.01)
    assert one["written"][0] == pytest.approx(100 * expected["written"] / whole, abs=0.01)
    assert one["read"][1] + one["written"][1] == pytest.approx(100, abs=0.01)
    assert one["step"] == f"{state['step']} / {expected['steps']}"
    assert one["label"] and not any(wrong in one["label"] for wrong in ("{", "NaN", "undefined"))
    if state["way"] == "tiled":
        assert one["rows"] == expected["written"] // (figure.SIZE * state["rows"] * figure.WIDTH)
        todo = expected["steps"] - state["step"]
        drawn = {"now": min(state["step"], 1), "past": max(state["step"] - 1, 0), "todo": todo}
        assert one["tiles"] == drawn | {"skipped": expected["skipped"], "scores": 0, "weights": 0}
    return one


@pytest.mark.slow
@pytest.mark.browser
def test_the_buttons_set_what_they_name(chapter, course):
    check_shown(chapter, course, **figure.START)
    buttons = chapter.locator(f"{FIGURE} .abh-tries button")
    for i, wanted in enumerate(figure.TRIES):
        buttons.nth(i).click()
        one = check_shown(chapter, course, **wanted)
        assert one["pressed"] == [j == i for j in range(len(figure.TRIES))]
    chapter.locator(f"{FIGURE} .abh-summary", has_text="above the diagonal").wait_for(timeout=3000)


@pytest.mark.slow
@pytest.mark.browser
def test_each_step_moves_one_tile(chapter, course):
    chapter.locator(FIGURE).get_by_role("radio", name="256").first.check(force=True)
    chapter.locator(FIGURE).get_by_role("radio", name="256").last.check(force=True)
    chapter.locator(f"{FIGURE} .abh-back").click()
    check_shown(chapter, course, step=0, rows=256, columns=256)
    for step in range(1, 17):
        chapter.locator(f"{FIGURE} .abh-next").click()
        check_shown(chapter, course, step=step)
    assert chapter.locator(f"{FIGURE} .abh-next").is_disabled()
    chapter.locator(FIGURE).get_by_role("radio", name="causal").check(force=True)
    check_shown(chapter, course, step=10, causal=True)
    chapter.locator(FIGURE).get_by_role("radio", name="naive").check(force=True)
    check_shown(chapter, course, step=3, way="naive")


@pytest.mark.slow
@pytest.mark.browser
def test_keys_are_enough(chapter, course):
    chapter.locator(f"{FIGURE} input[type=range]").focus()
    chapter.keyboard.press("ArrowRight")
    check_shown(chapter, course, step=2)
    chapter.keyboard.press("End")
    check_shown(chapter, course, step=64)
    chapter.locator(f"{FIGURE} .abh-tries button").nth(2).focus()
    chapter.keyboard.press("Enter")
    check_shown(chapter, course, **figure.TRIES[2])
    assert chapter.url.endswith(PAGE)


@pytest.mark.slow
@pytest.mark.browser
def test_nothing_sticks_out_on_a_phone(browser, site):
    assert figure_tools.fits_a_phone(browser, site + PAGE, FIGURE)
