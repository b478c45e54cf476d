"""Make the benchmark's course and a class of submissions for it: `python benchmarks/make.py FOLDER --students 200`.

The same seed makes the same class. Answers are right in several spellings, wrong in the ways that students are, or
end in an error; nobody is hostile. Every notebook is a little different from every other.
"""

import argparse
import copy
import json
import os
import random
import shutil
import sys
from pathlib import Path

# nbgrader calls alembic by name; it lies beside this Python, activated or not.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

HERE = Path(__file__).resolve().parent
NAME = "01-bench"
CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "benchmark"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "__pycache__", "*.pyc", "[0-9][0-9]-*.py", "grade.json"]
"""

# Bodies of the functions, as students write them. `{n}` stands for a number of the student's own.
HEADS = {
    "project": "def project(X, W):",
    "scores": "def scores(Q, K):",
    "softmax": "def softmax(S):",
    "weighted_sum": "def weighted_sum(A, V):",
    "attention": "def attention(Q, K, V):",
    "torch_attention": "def torch_attention(Q, K, V, causal=False):",
}
RIGHT = {
    "project": [
        "return X @ W",
        "return np.matmul(X, W)",
        'return np.einsum("...ij,jk->...ik", X, W)',
        "if X.shape[-1] != W.shape[0]:\n    raise ValueError('sizes do not fit')\nreturn np.dot(X, W)",
    ],
    "scores": [
        "return Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])",
        'return np.einsum("...id,...jd->...ij", Q, K) / Q.shape[-1] ** 0.5',
        "d = Q.shape[-1]\nKT = K.swapaxes(-1, -2)\nS = np.matmul(Q, KT)\nreturn S / np.sqrt(d)",
    ],
    "softmax": [
        "E = np.exp(S - S.max(axis=-1, keepdims=True))\nreturn E / E.sum(axis=-1, keepdims=True)",
        "S = S - np.max(S, axis=-1, keepdims=True)\nreturn np.exp(S) / np.sum(np.exp(S), axis=-1, keepdims=True)",
        "m = S.max(-1)[..., None]\nlog = np.log(np.exp(S - m).sum(-1))[..., None] + m\nreturn np.exp(S - log)",
    ],
    "weighted_sum": [
        "return A @ V",
        "return np.matmul(A, V)",
        "if A.shape[-1] != V.shape[-2]:\n    raise ValueError('sizes')\n"
        'return np.einsum("...ij,...jk->...ik", A, V)',
    ],
    "attention": [
        "return weighted_sum(softmax(scores(Q, K)), V)",
        "S = scores(Q, K)\nA = softmax(S)\nreturn weighted_sum(A, V)",
        "S = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])\n"
        "E = np.exp(S - S.max(-1, keepdims=True))\nreturn (E / E.sum(-1, keepdims=True)) @ V",
    ],
    "torch_attention": [
        "S = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5\nif causal:\n"
        '    S = S.masked_fill(torch.ones(S.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))\n'
        "return torch.softmax(S, dim=-1) @ V",
        "return torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=causal)",
        "S = torch.einsum('...id,...jd->...ij', Q, K) / math.sqrt(Q.shape[-1])\nif causal:\n"
        "    mask = torch.tril(torch.ones(S.shape[-2], S.shape[-1]))\n    S = S.masked_fill(mask == 0, -torch.inf)\n"
        "return torch.matmul(S.softmax(-1), V)",
    ],
}
WRONG = {
    "project": ["return X @ W.T", "return X * W", "return W @ X", "Y = X @ W"],
    "scores": [
        "return Q @ np.swapaxes(K, -1, -2)",
        "return Q @ np.swapaxes(K, -1, -2) / Q.shape[-1]",
        "return Q @ K.T / np.sqrt(Q.shape[-1])",
        "Q /= np.sqrt(Q.shape[-1])\nreturn Q @ np.swapaxes(K, -1, -2)",
    ],
    "softmax": [
        "E = np.exp(S)\nreturn E / E.sum(axis=-1, keepdims=True)",
        "E = np.exp(S - S.max())\nreturn E / E.sum()",
        "E = np.exp(S - S.max(axis=0))\nreturn E / E.sum(axis=0)",
        "S -= S.max(axis=-1, keepdims=True)\nE = np.exp(S)\nreturn E / E.sum(axis=-1, keepdims=True)",
    ],
    "weighted_sum": [
        "return np.swapaxes(A, -1, -2) @ V",
        "return A / A.sum(axis=-1, keepdims=True) @ V",
        "return A * V",
        "print('A', A.shape, 'V', V.shape)\nreturn V @ A",
    ],
    "attention": [
        "return scores(Q, K) @ V",
        "E = np.exp(Q @ np.swapaxes(K, -1, -2))\nreturn E / E.sum(-1, keepdims=True) @ V",
        "return weighted_sum(softmax(scores(Q, K).T).T, V)",
    ],
    "torch_attention": [
        "return torch.softmax(Q @ K.transpose(-1, -2), -1) @ V",
        "return torch.softmax(Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5, -1) @ V",
        "S = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5\nif causal:\n    S = S.tril()\nreturn S.softmax(-1) @ V",
        "return torch.softmax(Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5, -2) @ V",
    ],
}
BROKEN = [
    "raise NotImplementedError()",
    "return X + undefined_{n}",
    "return 1 / 0",
    "return [1, 2, {n}]",
    "return (",  # the cell ends in a SyntaxError, and the name is never defined
]
PLAY = [
    "print('my try {n}')",
    "np.round(np.linspace(0, 1, 5), 2)",
    "X = np.arange({n} % 7 + 2.0)\nX.mean(), X.std()",
    "# notes: n = {n}",
    "for i in range(3):\n    print(i, np.sqrt(i + {n}))",
]


def answers_of(rng):
    """Return one student's six function cells, by grade id, and what kind of student it is."""
    kind = rng.choices(["right", "wrong", "broken"], [50, 38, 12])[0]
    cells, faulty = {}, set()
    if kind != "right":
        faulty = set(rng.sample(list(HEADS), rng.choice([1, 1, 2, 3])))
    for name, head in HEADS.items():
        bodies = WRONG[name] if kind == "wrong" else BROKEN
        body = rng.choice(bodies if name in faulty else RIGHT[name])
        cells[name] = f"{head}\n    # try {rng.randrange(1000)}\n    " + body.replace("\n", "\n    ")
        cells[name] = cells[name].replace("{n}", str(rng.randrange(1, 1000)))
    cells["torch_attention"] = "import math\n\n\n" + cells["torch_attention"]
    return cells, kind


def notebook_of(released, rng, student):
    """Return a submission: the released notebook as one student filled it in (both are plain JSON)."""
    notebook = copy.deepcopy(released)
    cells, _ = answers_of(rng)
    for cell in notebook["cells"]:
        own = cell["metadata"].get("nbgrader", {})
        if own.get("solution"):
            cell["source"] = cells[own["grade_id"]]
        elif cell["cell_type"] == "code" and not own:
            cell["source"] = rng.choice(PLAY).replace("{n}", str(rng.randrange(1, 1000)))
    notebook["cells"].append(
        {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": f"Handed in by {student}."}
    )
    return notebook


def course(folder):
    """Make the benchmark's course in `folder`, released; return the path of its released notebook."""
    from autograder.course import Course
    from autograder.release import release

    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(HERE / "course", folder, dirs_exist_ok=True)
    (folder / "nbgrader_config.py").write_text(CONFIG)
    own = Course(root=folder, into=folder)
    release(own, own.exercises()[0])
    return folder / "exercises" / NAME / f"{NAME}.ipynb"


def students(folder, count, seed=1):
    """Write `count` submissions for the course in `folder` below its `submitted/`; return the students' names."""
    released = json.loads((folder / "exercises" / NAME / f"{NAME}.ipynb").read_text())
    names = [f"student{number:04d}" for number in range(count)]
    for number, name in enumerate(names):
        own = folder / "submitted" / name / NAME
        own.mkdir(parents=True, exist_ok=True)
        notebook = notebook_of(released, random.Random(f"{seed} {number}"), name)
        (own / f"{NAME}.ipynb").write_text(json.dumps(notebook, indent=1))
    return names


def main():
    """Make a course and its class in a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--students", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    own = parser.parse_args()
    course(own.folder.resolve())
    print(f"{len(students(own.folder.resolve(), own.students, own.seed))} submissions in {own.folder}/submitted")


if __name__ == "__main__":
    main()
