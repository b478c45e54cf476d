"""The figure of chapter 03: a row of scores, its weights and slopes, and a gradient on its way
back, step by step.

The figure computes in JavaScript (softmax.js), so it answers in a page without a kernel. What is
here is its data and its words: everything a reader sees comes from `TEXT`, so that a translation
passes another dictionary.
"""

import numpy as np
import traitlets
from figures.widget import Figure, script, style

WORDS = ["cat", "chased", "mouse"]
SCORES = np.array([np.log(2), 0.0, 0.0])  # (3,) their weights are 1/2, 1/4, 1/4
GRADES = np.array([4.0, 0.0, 2.0])  # (3,) the first numbers of chapter 1's values

TEXT = {
    "title": "Softmax and its gradient, step by step",
    "steps": "Step",
    "step_names": ["Weights", "Slopes", "Grades", "Average", "Gradient"],
    "back": "Back",
    "next": "Next",
    "scores": "scores",
    "weights": "weights",
    "score_of": "Score of {word}",
    "nudge": "Raise",
    "word": "word",
    "weight": "weight",
    "slope": "slope by {word}",
    "grade": "grade",
    "above": "above average",
    "gradient": "gradient",
    "total": "sum",
    "share": "The weights share one bar",
    "share_nudged": "The same with 0.1 more for “{word}”",
    "share_picture": "A bar of length 1, divided by weight: {weights}. With 0.1 more for the "
    "score of “{word}”: {nudged}.",
    "grade_axis": "grade",
    "support": "average {average}",
    "balance_picture": "The weights are on a beam, each at its grade: {grades}. The beam balances "
    "at {average}.",
    "try": "Things to try",
    "try_long": "A query ten times longer",
    "try_two": "The same with two in the lead",
    "try_shift": "Add 3 to every score",
    "try_alike": "All grades alike",
    "learn": "Learn",
    "learn_one": "1 step",
    "learn_ten": "10 steps",
    "reset": "Start again",
    "say_weights": "Softmax turns the scores into weights: {weights}. They sum to 1. {best}",
    "say_slopes": "Raise the score of “{word}” by 0.1, and the weights become {nudged}. Each "
    "moves by about 0.1 times its slope. The others lose what one gains.",
    "say_grades": "Now backwards. The grade of a word says how fast the loss grows with its "
    "weight: {grades}. A low grade is a good one. Each weight is placed on a beam "
    "at its grade.",
    "say_average": "The beam balances at the average grade, {mean} = {average}. More weight on a "
    "word helps only if its grade is below that.",
    "say_gradient": "Weight times distance from the average: {products}. {moves}",
    "one_best": "Most goes to “{best}”.",
    "all_level": "All are equal.",
    "some_level": "“{best}” share the lead.",
    "and": "” and “",
    "moves": "Learning lowers the score of “{down}” and raises that of “{up}”.",
    "still": "No gradient is larger than {largest}: this row hardly learns.",
    "same_grade": "All have the average grade, so nothing moves.",
}


class SoftmaxFigure(Figure):
    """A row of n scores to move, and a gradient that comes back through softmax.

    Args:
        tokens: n words.
        scores: (n,) numbers, with sliders from -10 to 10.
        grades: (n,) the gradient by the weights, not all alike.
        step: which of the five steps is shown first, from 0.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("softmax"), style("softmax")
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    scores = traitlets.List().tag(sync=True)
    grades = traitlets.List().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, tokens, scores, grades, step=0, text=None):
        scores, grades = np.asarray(scores, dtype=float), np.asarray(grades, dtype=float)
        if scores.shape != (len(tokens),) or grades.shape != (len(tokens),):
            raise ValueError(
                f"{len(tokens)} tokens need as many scores and grades, not {scores.shape} and "
                f"{grades.shape}"
            )
        data = {"scores": scores.tolist(), "grades": grades.tolist()}
        super().__init__(TEXT, text, tokens=list(tokens), step=step, **data)


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return SoftmaxFigure(WORDS, SCORES, GRADES, step=4)
