"""The figure of chapter 11 counts what the chapter's Python counts; its tables are of what was
measured, no more.
"""

import numpy as np
import pytest
from figures import gpu as figure
from figures import gpu_record, gpu_steps, testing

PAGE = "11-kernel"
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
        ROW | {"implementation": name, "n": n, "direction": way, "d_head": width, "milliseconds": base * n / 4096}
        for name, base in (("kernel", 2.0), ("flash", 1.0), ("cudnn", 1.5), ("naive", 9.0))
        for n in (1024, 4096, 16384)
        for way in ("forward", "forward+backward", "backward")
        for width in (64, 128)
    ] + [ROW | {"implementation": "naive", "n": 32768, "direction": "forward", "milliseconds": None, "why": "no"}],
    "layer": [
        ROW | {"implementation": name, "n": n, "direction": way, "d_model": 2048, "milliseconds": base}
        for name,
        base in (("layer", 3.0), ("layer, cudnn", 2.4), ("layer, own kernel", 6.0), ("projections", 1.0),
                           ("nn.MultiheadAttention with weights", 12.0))
        for n in (4096, 16384)
        for way in ("forward", "forward+backward")
    ],
    "leaderboard": {
        "batch": 1, "heads": 16, "n": 16384, "d_head": 64, "dtype": "bfloat16",
        "rows": [ROW | {"implementation": of, "milliseconds": ms} for of, ms in (("kernel", 7.77), ("cudnn", 3.3))],
        "cited_milliseconds": {"naive": 80.0, "best": 5.4, "where": "somewhere"},
    },
    "accuracy": [{"implementation": "kernel", "dtype": "float16", "causal": True, "quantity": "dq", "error": 4.4e-4}],
    "memory_exponent": {"layer": {"layer": {"forward": {"exponent": 1.01}, "forward+backward": {"exponent": 1.02}}}},
    "timing": {"what": "a product", "first_call": 99.0, "without_waiting": 0.01, "with_waiting": 1.2, "events": 1.1,
               "events_zeros": 0.9, "flops": 11e9},
    "trace": [{"implementation": "layer, own kernel", "n": 4096, "kernel": name, "us": us}
              for name, us in (("a kernel", 12.0), ("a direct_copy", 4.0))],
    "window": [{"window": of, "direction": "forward", "milliseconds": ms} for of, ms in ((1024, 0.123), (None, 2.0))],
    "tuning": [
        {"kernel": "forward", "d_head": 64, "queries": 32, "keys": 16, "warps": 4, "stages": 1, "milliseconds": ms,
         "tflop_s": 100 / ms}
        for ms in (2.0, 1.0)
    ],
}  # fmt: skip


def test_both_pages_have_the_same_check():
    """Each page's notebook runs by itself, so the check is there twice."""
    first, second = (testing.of_chapter(name) for name in ("11-gpu", "11-kernel"))
    for name in ("gap", "attend"):
        assert first[name].__code__.co_code == second[name].__code__.co_code
        assert first[name].__code__.co_consts == second[name].__code__.co_consts


def states():
    for rows in figure.SIDES:
        for columns in figure.SIDES:
            for causal in (False, True):
                yield figure.START | {"rows": rows, "columns": columns, "causal": causal}


def in_python(course, state):
    """All that the figure shows of one state: walked tile by tile, and compared with the
    chapter's functions.
    """
    n, d, size = figure.N, figure.WIDTH, figure.SIZE
    rows, columns = state["rows"], state["columns"]
    walk, skipped = [], 0
    for i in range(0, n, rows):
        seen = [
            j
            for j in range(0, n, columns)
            if not state["causal"] or (np.arange(i, i + rows) >= j).any()
        ]
        skipped += n // columns - len(seen)
        walk += [
            (rows * d * (j == seen[0]) + 2 * columns * d, rows * d * (j == seen[-1])) for j in seen
        ]
    whole = [(2 * n * d, n * n), (n * n, n * n), (n * n + n * d, n * d)]
    assert size * np.sum(walk) == course["tiled_bytes"](n, d, size, rows, columns, state["causal"])
    assert size * np.sum(whole) == course["naive_bytes"](n, d, size)
    steps = whole if state["way"] == "naive" else walk
    read, written = size * np.sum(steps[: state["step"]], axis=0) if state["step"] else (0, 0)
    held = [
        size * rows * d,
        size * columns * d,
        size * columns * d,
        4 * rows * columns,
        4 * rows * d,
    ]
    return {"steps": len(steps), "read": read, "written": written, "held": held, "skipped": skipped}


def check_equal(answer, expected):
    assert (answer["steps"], answer["skipped"]) == (expected["steps"], expected["skipped"])
    assert (answer["moved"]["read"], answer["moved"]["written"]) == (
        expected["read"],
        expected["written"],
    )
    held = expected["held"]
    assert answer["held"] == held and answer["rooms"] == [sum(held[:3]), sum(held[3:])]
    assert answer["fits"] == (sum(held[:3]) <= 228 * 1024 and sum(held[3:]) <= 256 * 1024)


# ---- under node
# ------------------------------------------------------------------------------------------


def test_what_is_moved_equals_the_chapters_count(course, tmp_path):
    wanted = []
    for state in states():
        steps = in_python(course, state)["steps"]
        wanted += [state | {"step": step} for step in {0, 1, 2, steps // 2, steps - 1, steps}]
        wanted += [state | {"way": "naive", "step": step} for step in range(4)]
    cases = [{"state": state, "sizes": SIZES} for state in wanted]
    answers = testing.in_node(tmp_path, "gpu", "m.look(c.state, c.sizes)", cases)
    for state, answer in zip(wanted, answers, strict=True):
        check_equal(answer, in_python(course, state))


def test_causal_tiles_are_those_that_a_query_of_theirs_may_see(tmp_path):
    cases = [{"state": state, "sizes": SIZES} for state in states() if state["causal"]]
    seen = np.tril(np.ones((figure.N, figure.N), dtype=bool))
    for case, found in zip(
        cases,
        testing.in_node(tmp_path, "gpu", "m.tiles(c.state, c.sizes)", cases),
        strict=True,
    ):
        rows, columns = case["state"]["rows"], case["state"]["columns"]
        some = seen.reshape(figure.N // rows, rows, figure.N // columns, columns).any((1, 3))
        assert [(tile["i"], tile["j"]) for tile in found] == [
            tuple(map(int, at)) for at in np.argwhere(some)
        ]
        assert (
            sum(tile["first"] for tile in found)
            == sum(tile["last"] for tile in found)
            == figure.N // rows
        )


def test_bytes_have_units(tmp_path):
    said = testing.in_node(tmp_path, "gpu", "[m.inBytes(c), m.inKiB(c)]", [96, 65_536, 8_912_896])
    assert said == [["96 bytes", "0 KiB"], ["66 KB", "64 KiB"], ["8.9 MB", "8,704 KiB"]]


def test_each_thing_to_try_is_what_the_page_says_of_it(course):
    first, end, naive, low, high, causal = (in_python(course, state) for state in figure.TRIES)
    assert first["written"] == 0 and first["read"] == 2 * 3 * 128 * 64
    assert (
        figure.TRIES[1]["step"] == end["steps"] and figure.TRIES[2]["step"] == naive["steps"] == 3
    )
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


# ---- what was measured on a GPU, and what was not
# ----------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"machine": RECORD["machine"]},
        {
            "machine": RECORD["machine"],
            "attention": [],
            "leaderboard": RECORD["leaderboard"] | {"rows": []},
        },
    ],
)
def test_what_was_not_measured_does_not_appear_and_one_box_says_what_measures_it(record):
    assert [figure.table(record, title) for title in figure.LEADS] == [None] * len(figure.LEADS)
    assert (
        figure.tuned(record)
        is figure.times(record)
        is figure.layers(record)
        is figure.roofs(record)
        is None
    )
    assert figure.folded(record, "Numbers", figure.LEADS) is None
    assert set(figure.measurements(record).values()) <= {
        "not yet measured",
        figure.measured_on(record),
    }
    said = figure.box(record).data
    assert "benchmarks/gpu.py" in said and all(words in said for words in figure.PARTS.values())


def test_of_a_record_in_part_what_was_measured_appears():
    record = {
        "machine": RECORD["machine"],
        "ceilings": RECORD["ceilings"],
        "layer": RECORD["layer"],
    }
    shown = {title for title in figure.LEADS if figure.table(record, title)}
    assert shown == {"The layer", "Goals"}
    goals = figure.table(record, "Goals").data
    # a line, and the two goals that were measured
    assert goals.count("\n| ") == 3 and "FlashAttention" not in goals
    assert figure.PARTS["layer"] not in figure.box(record).data
    said = figure.measurements(record)
    assert (
        said["speed_bfloat16"] == "200"
        and said["own_times"] == "2.00"
        and said["contest"] == "not yet measured"
    )


def test_a_record_fills_the_tables():
    for title, lead in figure.LEADS.items():
        lines = figure.table(RECORD, title).data.splitlines()
        assert (
            lines[0].startswith(lead or "| ")
            and len([line for line in lines if line.startswith("| ")]) > 2
        ), title
    assert figure.box(RECORD) is None
    folded = figure.folded(RECORD, "Numbers", ["Attention", "Accuracy"]).data
    assert folded.startswith(":::{admonition} Numbers\n:class: dropdown\n") and "4.4e-04" in folded
    forward = (
        figure.table(RECORD, "Attention")
        .data.split("*forward, heads of 64, bfloat16*\n\n")[1]
        .splitlines()
    )
    assert (
        forward[0] == "| $n$ | kernel | cudnn | flash | naive |"
        and forward[3] == "| 4,096 | 2.00 | 1.50 | 1.00 | 9.00 |"
    )
    assert forward[5] == "| 32,768 |  |  |  | no |"
    contest = figure.table(RECORD, "The leaderboard's configuration").data
    times = [
        float(line.split(" | ")[1])
        for line in contest.splitlines()
        if line.startswith("| ") and "." in line
    ]
    assert times == [3.3, 5.4, 7.77] and "| naive, as cited | 80 |" in contest  # the quickest first
    assert "| batch" not in contest  # a heading that pushes its column off a phone
    goals = figure.table(RECORD, "Goals").data
    # missed
    assert "time over FlashAttention's in PyTorch | ≤ 1.50 | **2.00** | **2.00** |" in goals
    assert "with weights | ≥ 3.00 | 4.00 | 4.00 |" in goals
    assert "the fastest of PyTorch's | ≥ 1.00 | **0.80** | **0.80** |" in goals
    assert len(figure.tuned(RECORD).data.splitlines()) == 3
    quick, slow = figure.tuned(RECORD, top=2).data.splitlines()[2:]
    assert "1.000 | 100" in quick and "2.000 | 50" in slow


def test_sentences_say_what_the_record_has():
    said = figure.measurements(RECORD)
    wanted = {
        "card": "a card, torch 9, triton 8, 2026-01-01",
        "ridge_bfloat16": "200", "faster": "20", "roof_naive": "32", "roof_tiles": "128",
        "roof_softmax": "1",
        "tuned_forward_64": "100", "tuned_rows": "32", "tuned_roof": "32", "tuned_share": "50%",
        "naive_ms": "36.0", "kernel_ms": "8.00", "kernel_times": "4", "kernel_mib": "1",
        "wide_rate": "1.0",
        "short_kernel": "500.0", "short_cudnn": "375.0", "goal_flash_forward": "200%",
        "goals_met": "6",
        "goals_missed": "7", "layer_least": "0.80", "layer_least_n": "4,096",
        "own_times": "2.00", "own_copies": "25%", "weights_both": "4",
        "timing_too_fast": "1,100", "timing_rate": "10",
        "window_forward": "0.12", "window_all_forward": "2.00", "contest": "not yet measured",
    }  # fmt: skip
    assert {name: said[name] for name in wanted} == wanted
    assert set(figure.NAMES) <= said.keys()


def test_the_cache_is_a_published_figure_until_it_is_measured():
    said = figure.measurements(RECORD)
    assert (said["l2"], said["l2_ridge"]) == ("6.9", "29") and "not yet measured" in said["l2_said"]
    said = figure.measurements(RECORD | {"cache": {"l2_gb_s": 4000.0}})
    assert (said["l2"], said["l2_ridge"], said["l2_said"]) == (
        "4.0",
        "50",
        "what was measured on this GPU",
    )
    assert (said["table_ps"], said["again_ps"], said["exponentials_64"]) == ("6.00", "1.79", "20%")


def test_a_backward_pass_counts_five_products():
    row = {
        "d_head": 64,
        "n": 4096,
        "heads": 16,
        "queries": 64,
        "keys": 64,
        "warps": 4,
        "stages": 1,
        "tflop_s": 1.0,
    }
    tuning = [
        row | {"kernel": name, "milliseconds": ms} for name, ms in (("queries", 1.0), ("keys", 2.0))
    ]
    flops = 5 * 2 * 16 * 64 * 4096 * 4097 / 2
    assert (
        figure.measurements(RECORD | {"tuning": tuning})["backward_rate_64"]
        == f"{flops / 3e-3 / 1e12:.0f}"
    )


LOOPS = (
    "def f(q):\n    for i in q:\n        for j in i:\n            a = j\n            b = (a +\n   "
    "          1)\n",
    "def g(q):\n    for start in range(4):\n        places = start\n        a = 2 * places\n      "
    "  b = a\n",
)


def test_loops_stand_beside_each_other_line_by_line():
    lines = figure.beside(*LOOPS).data.splitlines()
    assert (
        lines[0] == "| `f` | `g` |" and lines[2] == "| `for j in i:` | `for start in range(4):` |"
    )
    assert lines[3:] == [
        "|  | `places = start` |",
        "| `a = j` | `a = 2 * places` |",
        "| `b = a + 1` | `b = a` |",
    ]
    with pytest.raises(ValueError, match="different orders"):
        figure.beside(
            LOOPS[0], LOOPS[1].replace("        b = a\n", "").replace("places = start", "b = start")
        )


@pytest.mark.parametrize("wrong", ["last row", "last block"])
def test_the_check_of_the_chapter_sees_a_row_that_is_missing(course, wrong):
    """As one distance of the whole result it would pass: 1 / sqrt(n)."""
    import torch

    def attend(q, k, v):
        z = course["tiled"](q, k, v)
        z[-1 if wrong == "last row" else -16 :] = 0
        return z

    sizes = {"dtype": torch.bfloat16, "n": 65, "d": 16}
    allowed = 2 * course["gap"](course["attend"], **sizes)
    assert course["gap"](course["tiled"], **sizes) < allowed < course["gap"](attend, **sizes)


def traced(name, n, kernels, launches):
    """Return rows of a trace: kernels by name with their µs, 10 µs after one another, and
    launches 5 µs earlier.
    """
    about = {"implementation": name, "n": n}
    rows = [
        about | {"kernel": what, "start_us": 10.0 * i, "us": us}
        for i, (what, us) in enumerate(kernels)
    ]
    return rows + [
        about | {"host": "cudaLaunchKernel", "start_us": 10.0 * i, "us": 2.0}
        for i in range(launches)
    ]


KERNELS = [
    ("nvjet_sm90", 30.0),
    ("cudnn_sdpa", 40.0),
    ("void CatArrayBatchedCopy", 20.0),
    ("reduce_kernel", 10.0),
]
STEPS = RECORD | {
    "trace": [*traced("layer", 512, KERNELS, 4), *traced("layer, CUDA graph", 512, KERNELS, 1),
              *traced("layer", 4096, KERNELS[:2], 0)],
    "layer": [ROW | {"implementation": name, "n": n, "direction": "forward+backward", "milliseconds": ms}
              for name, n,
              ms in (("layer", 512, 0.4), ("layer, CUDA graph", 512, 0.125), ("layer", 4096, 0.07),
                                  ("layer, compiled", 512, 0.2),
                                  ("nn.MultiheadAttention", 512, 0.9),
                                  ("nn.MultiheadAttention, CUDA graph", 512, 0.3))],
}  # fmt: skip


def test_a_step_is_divided_by_kinds_of_kernels():
    own = figure.shares(STEPS, "layer", 512)
    kinds = {"attention": 40, "copies and casts": 20, "products": 30, "sums and the rest": 10}
    assert own == kinds | {"idle": pytest.approx(300)}
    assert figure.shares(STEPS, "layer", 4096)["idle"] == pytest.approx(0)
    assert figure.shares(STEPS, "layer", 1024) == figure.shares(RECORD, "layer", 4096) == {}
    said = figure.measurements(STEPS)
    wanted = {
        "short_launches": "4", "short_graph_launches": "1", "short_step": "400 µs",
        "short_busy": "100 µs",
        "short_idle": "75%", "short_graph_step": "125 µs", "short_graph_idle": "20%",
        "graph_step": "3.2 times",
        "graph_theirs": "3.0 times", "compiled_step": "2.0 times",
    }  # fmt: skip
    assert {name: said[name] for name in wanted} == wanted


def test_a_step_is_drawn_where_it_was_traced(monkeypatch):
    shown = []
    monkeypatch.setattr(figure.drawing, "show", lambda *axes: shown.append(axes))
    assert "not yet measured" in figure.steps(RECORD).data and not shown
    assert figure.steps(STEPS) is None
    line, bars = shown[0]
    assert len(line.collections) == 2 * len(KERNELS) + 4 + 1
    assert sum(bar.get_width() for bar in bars.patches) == pytest.approx(3)
    assert [own.get_text() for own in bars.texts][:2] == ["10%", "75%"]
    figure.drawing.plt.close("all")


def test_the_table_of_steps_has_the_fastest_blocks_and_the_backward_kernels_together():
    rows = [
        {"kernel": kernel, "step": step, "d_head": 64, "n": 4096, "milliseconds": milliseconds}
        for kernel, step, milliseconds in (
            ("forward", "today", 4.0), ("forward", "persistent, 1", 3.0),
            ("forward", "persistent, 2", 2.0),
            ("queries", "today", 1.0), ("keys", "today", 2.0), ("backward", "one pass", 2.5),
        )
    ]  # fmt: skip
    found = gpu_steps.times({"variants": rows})
    assert found["forward", 64, 4096] == {"today": 4.0, "persistent": 2.0}
    assert found[gpu_steps.BOTH, 64, 4096] == {"today": 3.0, "one pass": 2.5}
    lines = gpu_steps.table({"variants": rows}).data.splitlines()
    assert lines[2] == "| forward | 64 | 4,096 | 4.00 |  |  | 2.00 |  |"
    assert gpu_steps.table({}) is None
    assert set(gpu_steps.measurements({}).values()) == {figure.tables().NOT_YET}
    assert (
        gpu_steps.measurements({}).keys()
        == gpu_steps.measurements(gpu_record.read("data/gpu-steps.json")).keys()
    )


def test_what_is_drawn_is_what_was_measured(monkeypatch):
    shown = []
    monkeypatch.setattr(figure.drawing, "show", lambda *axes: shown.append(axes))
    assert figure.times(RECORD) is figure.layers(RECORD) is None
    forward, both = (
        {line.get_label(): line.get_xydata() for line in axes.get_lines()} for axes in shown[0]
    )
    assert set(forward) == set(both) == {"ours", "FlashAttention", "cuDNN", "naive"}
    # no point: no room
    np.testing.assert_array_equal(forward["naive"], [[1024, 2.25], [4096, 9.0], [16384, 36.0]])
    for axes in shown[1]:
        lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
        np.testing.assert_allclose(lines["the fastest of PyTorch's"], [[4096, 0.8], [16384, 0.8]])
        np.testing.assert_allclose(
            lines["nn.MultiheadAttention with weights"], [[4096, 4.0], [16384, 4.0]]
        )
    figure.drawing.plt.close("all")


# ---- in the browser
# --------------------------------------------------------------------------------------


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
    assert chapter.url.endswith(f"/{PAGE}.html")
