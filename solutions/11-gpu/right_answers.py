"""Right answers that look different from ours; the tests hold the checks against them. No student is handed them."""

import torch

from checking import right
from misconceptions import Back, attend_by


@right("by_hand")
def by_hand_tensor():
    return torch.tensor([1.5, 0.5, 2.75, 3.4545])


# flash_attention_forward: what kernels compute, with one mistake or none


@right("flash_attention_forward")
def flash_attention_forward_long_tiles(q, k, v, causal=False):
    return attend_by(q, k, v, causal, 16, 64, "in place")


@right("flash_attention_forward")
def flash_attention_forward_high_tiles(q, k, v, causal=False):
    return attend_by(q, k, v, causal, 64, 16)


@right("flash_attention_forward")
def flash_attention_forward_powers_of_two(q, k, v, causal=False):
    return attend_by(q, k, v, causal, 32, 32, "base 2")


@right("flash_attention_forward")
def flash_attention_forward_float32(q, k, v, causal=False):
    return attend_by(q, k, v, causal, 32, 16, "float32")


# flash_attention


@right("flash_attention")
def flash_attention_in_parts(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 32, 32, "parts")


@right("flash_attention")
def flash_attention_high_tiles(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 64, 16, "")


@right("flash_attention")
def flash_attention_long_tiles(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 16, 64, "parts")


@right("flash_attention")
def flash_attention_float32(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 32, 32, "float32")
