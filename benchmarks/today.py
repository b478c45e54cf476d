"""Compares the block of chapter 13 with that of a released model: `python benchmarks/today.py`.

A Qwen3 of `transformers`, small and with weights drawn at random, and this file's block in the
course's conventions get the same tokens. Its layers take turns: three with a window, one without.
The record, `book/data/today.json`, has the largest difference of their results, relative to the
largest number, over three draws:

- `float32`: their code as it is
- `float64`: in 64 bits, also the two places in which their code always rounds to 32, RMSNorm and
  the angles of the rotations
- `unsorted`: the same with the rows of W_q and W_k in their order
- `unsorted_gains`: the same with those rows sorted, but not the gains of the two norms
- `exercise`: the same as `float64`, with the author's `Block` of exercise 13
- `sinks`: the attention weights of a layer of gpt-oss, whose softmax has a sink
- `llama3`, `yarn`: the stretched angles of Llama 3.1 and of gpt-oss, and the paper's formula by
  parts; the largest difference as a share of the angle

`transformers` is no dependency of the course: use another environment that has it besides torch.
No weights are downloaded.
"""

import argparse
import ast
import contextlib
import importlib
import json
import math
import platform
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch.nn import functional as F  # noqa: N812 (as PyTorch’s own pages do)

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "book" / "data" / "today.json"
SOLUTION = ROOT / "solutions" / "13-today" / "13-today.py"
SIZES = {"d_model": 64, "num_heads": 4, "num_kv_heads": 2, "d_ff": 96, "layers": 4, "n": 24}
WINDOW, THETA, EPS, SEEDS = 5, 10_000.0, 1e-6, (0, 1, 2)


def order(d_k):
    """Return, for each row of a head in the course's order, which row of theirs it is: (d_k,).

    They rotate number i with number i + d_k / 2; the course rotates 2 i with 2 i + 1.
    """
    return torch.arange(d_k).reshape(2, d_k // 2).T.flatten()


def sort_rows(W, d_k):
    """Return W_q or W_k, (heads * d_k, d_model), with the rows of each head in the course's
    order.
    """
    return W.unflatten(0, (-1, d_k))[:, order(d_k)].flatten(0, 1)


def norm(x, gain):
    """(..., d) -> (..., d)"""
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * gain


def rotated(x):
    """(..., n, d_k) -> (..., n, d_k), pairs of neighbors"""
    n, d_k = x.shape[-2:]
    rates = THETA ** (-torch.arange(0, d_k, 2, dtype=x.dtype) / d_k)
    angles = torch.arange(n, dtype=x.dtype)[:, None] * rates  # (n, d_k / 2)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def block(x, w, window):
    """Return what a block makes of x, (b, n, d_model), with weights by the exercise's names."""
    y = norm(x, w["norm1"])
    d_k = len(w["q_norm"])
    q, k, v = ((y @ w[name].T).unflatten(-1, (-1, d_k)).transpose(1, 2) for name in QKV)
    q, k = rotated(norm(q, w["q_norm"])), rotated(norm(k, w["k_norm"]))  # (b, heads, n, d_k)
    back = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
    see = (back >= 0) & (back < (window or math.inf))
    z = F.scaled_dot_product_attention(q, k, v, attn_mask=see, enable_gqa=True)
    x = x + z.transpose(1, 2).flatten(2) @ w["W_o"].T
    y = norm(x, w["norm2"])
    return x + (F.silu(y @ w["W_gate"].T) * (y @ w["W_up"].T)) @ w["W_down"].T


QKV = ("W_q", "W_k", "W_v")
THEIRS = {
    "W_q": "self_attn.q_proj.weight",
    "W_k": "self_attn.k_proj.weight",
    "W_v": "self_attn.v_proj.weight",
    "W_o": "self_attn.o_proj.weight",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "W_gate": "mlp.gate_proj.weight",
    "W_up": "mlp.up_proj.weight",
    "W_down": "mlp.down_proj.weight",
    "norm1": "input_layernorm.weight",
    "norm2": "post_attention_layernorm.weight",
}
"""Their names of our weights."""


def weights(layer, rows=True, gains=True):
    """Return the weights of one of their layers by our names, sorted into our order."""
    found = {ours: layer.get_parameter(theirs).detach() for ours, theirs in THEIRS.items()}
    d_k = len(found["q_norm"])
    for name in ("W_q", "W_k") if rows else ():
        found[name] = sort_rows(found[name], d_k)
    for name in ("q_norm", "k_norm") if gains else ():
        found[name] = found[name][order(d_k)]
    return found


def qwen(seed, dtype):
    """Return a Qwen3 with random weights, whose norms' gains aren't 1, and its windows."""
    qwen3 = importlib.import_module("transformers.models.qwen3")
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    config = qwen3.Qwen3Config(
        vocab_size=50,
        hidden_size=SIZES["d_model"],
        intermediate_size=SIZES["d_ff"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["num_heads"],
        num_key_value_heads=SIZES["num_kv_heads"],
        head_dim=SIZES["d_model"] // SIZES["num_heads"],
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        rms_norm_eps=EPS,
        use_sliding_window=True,
        sliding_window=WINDOW,
        layer_types=kinds,
    )
    torch.manual_seed(seed)
    model = qwen3.Qwen3Model(config).to(dtype).eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
        else:
            torch.nn.init.normal_(parameter, std=1 / math.sqrt(parameter.shape[-1]))
    return model.requires_grad_(False), [WINDOW if kind[0] == "s" else None for kind in kinds]


def exactly(model):
    """Make a model compute in 64 bits what its code rounds to 32: norms and rotations."""
    for module in model.modules():
        if "RMSNorm" in type(module).__name__:
            module.forward = lambda x, own=module: norm(x, own.weight)

    def tables(x, positions):
        d_k = SIZES["d_model"] // SIZES["num_heads"]
        rates = THETA ** (-torch.arange(0, d_k, 2, dtype=x.dtype) / d_k)
        angles = (positions[..., None] * rates).repeat(1, 1, 2)  # (b, n, d_k)
        return angles.cos(), angles.sin()

    model.rotary_emb.forward = tables
    return model


def apart(ours, theirs):
    """Return the largest difference, as a share of the largest number."""
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def authors_block(path):
    """Return the class `Block` of the author's solution."""
    names = {}
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    for node in ast.parse(path.read_text(encoding="utf8")).body:
        if isinstance(node, kinds):
            with contextlib.suppress(ImportError):  # of what only a notebook needs
                exec(compile(ast.Module([node], []), str(path), "exec"), names)  # noqa: S102 (our own)
    return names["Block"]


def by_author(path):
    """Return a function like `block` that uses the author's class."""
    Block = authors_block(path)

    def block_of(x, w, window):
        sizes = [SIZES[name] for name in ("d_model", "num_heads", "num_kv_heads", "d_ff")]
        made = Block(*sizes, window=window, theta=THETA).to(x.dtype)
        for name, value in w.items():
            own = getattr(made, name)
            getattr(own, "weight", own).data.copy_(value)
        return made(x).detach()

    return block_of


def compared(seed, dtype, block=block, **sorting):
    """Return how far our stack of blocks and their model are apart."""
    model, windows = qwen(seed, dtype)
    if dtype == torch.float64:
        exactly(model)
    tokens = torch.randint(50, (2, SIZES["n"]), generator=torch.Generator().manual_seed(seed))
    x = model.embed_tokens(tokens)
    for layer, window in zip(model.layers, windows, strict=True):
        x = block(x, weights(layer, **sorting), window)
    return apart(norm(x, model.norm.weight), model(tokens).last_hidden_state)


def sinks(seed):
    """Return how far the weights of a softmax with a sink are apart from those of gpt-oss."""
    gpt_oss = importlib.import_module("transformers.models.gpt_oss.modeling_gpt_oss")

    class Layer(torch.nn.Module):  # what their function reads of one
        num_key_value_groups, training = 1, False

        def __init__(self, sinks):
            super().__init__()
            self.sinks = sinks

    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 2, 4, 7, 16, generator=generator, dtype=torch.float64)
    sink = torch.randn(4, generator=generator, dtype=torch.float64)
    mask = torch.full((7, 7), -math.inf).triu(1)
    # Their scaling, and the factor that undoes it: the scores are q k^T.
    theirs = gpt_oss.eager_attention_forward(Layer(sink), 4 * q, k, v, mask, scaling=0.25)[1]
    scores = q @ k.mT + mask
    # The sink is one more score, without a value: it only enlarges the sum.
    top = torch.maximum(scores.amax(-1, keepdim=True), sink[:, None, None])
    e = (scores - top).exp()
    return apart(e / (e.sum(-1, keepdim=True) + (sink[:, None, None] - top).exp()), theirs)


def angles(kind):
    """Return how far stretched angles are apart from the formula of YaRN's paper."""
    parts = {
        "llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "yarn": {"beta_slow": 1.0, "beta_fast": 32.0, "truncate": False},
    }[kind]
    # As in Llama 3.1 and gpt-oss.
    base, factor, trained, d_k = {
        "llama3": (500_000.0, 8.0, 8192, 128),
        "yarn": (150_000.0, 32.0, 4096, 64),
    }[kind]
    qwen3 = importlib.import_module("transformers.models.qwen3")
    utils = importlib.import_module("transformers.modeling_rope_utils")
    config = qwen3.Qwen3Config(
        head_dim=d_k,
        max_position_embeddings=int(factor * trained),
        rope_parameters={
            "rope_type": kind,
            "rope_theta": base,
            "factor": factor,
            "original_max_position_embeddings": trained,
            **parts,
        },
    )
    theirs = utils.ROPE_INIT_FUNCTIONS[kind](config)[0].double()
    rates = base ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    low, high, *_ = parts.values()
    kept = ((trained * rates / (2 * math.pi) - low) / (high - low)).clip(0, 1)
    ours = rates * (kept + (1 - kept) / factor)
    return ((ours - theirs).abs() / ours).max().item()


def main():
    """Compare, print and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--solution", type=Path, default=SOLUTION, help="the author's solution")
    parser.add_argument("--record", type=Path, default=RECORD, help="the file of the record")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = {
        "float32": {"dtype": torch.float32},
        "float64": {"dtype": torch.float64},
        "exercise": {"dtype": torch.float64, "block": by_author(options.solution)},
        "unsorted": {"dtype": torch.float64, "rows": False, "gains": False},
        "unsorted_gains": {"dtype": torch.float64, "gains": False},
    }
    found = {name: max(compared(seed, **case) for seed in SEEDS) for name, case in cases.items()}
    found["sinks"] = max(sinks(seed) for seed in SEEDS)
    found |= {kind: angles(kind) for kind in ("llama3", "yarn")}
    record = {
        "made": {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "python": platform.python_version(),
            "torch": torch.__version__.partition("+")[0],
            "transformers": importlib.import_module("transformers").__version__,
        },
        "sizes": SIZES | {"window": WINDOW, "seeds": len(SEEDS)},
        "apart": {name: float(f"{value:.3g}") for name, value in found.items()},
    }
    text = json.dumps(record, indent=1) + "\n"
    options.record.write_text(text, encoding="utf8")
    print(text, end="")


if __name__ == "__main__":
    main()
