# %% title [markdown]
# # 7. The transformer
#
# You build layers: a `FeedForward` network, and an `EncoderLayer` and a `DecoderLayer` around the multi-head attention of
# exercise 6. From encoder layers you build a small language model, `TinyGPT`. It trains in seconds, and your `generate`
# continues a text with it. With the same weights, the two layers compute the same as PyTorch's own, up to rounding. Read
# chapter 7 of the book first.
#
# *About 125 minutes · hard ●●●*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your
# code, run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every
# time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("FeedForward", points=2, seed=...)` in a cell of your own. You can earn partial points, and the checks
# are readable: open `checks.py` next to this notebook. Later classes may use earlier ones, so fix errors from the
# top. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `07-transformer.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import math

import torch
from torch import nn


def masked_softmax(S, mask=None):
    """Return the softmax over the keys that may be attended to, and weight 0 for the others (given; see exercise 5).

    Parameters
    ----------
    S : tensor, shape (..., n_q, n_k)
        Scores.
    mask : tensor of bool, optional
        True where the query may attend to the key. It broadcasts to `S`, starting at the last axis, n_k. None means everywhere.

    Returns
    -------
    tensor, shape (..., n_q, n_k)
        Weights in the dtype of `S`. Each row sums to 1, or is all 0 if it is fully masked.

    Raises
    ------
    ValueError, RuntimeError
        If the mask does not match the scores, which are never stretched to it.
    """
    if mask is None:
        return S.softmax(-1)
    if mask.shape[-1] != S.shape[-1]:
        raise ValueError(f"the mask is for {mask.shape[-1]} keys, and there are {S.shape[-1]}")
    mask = mask.broadcast_to(S.shape)
    nothing = ~mask.any(-1, keepdim=True)
    return S.masked_fill(~mask, -torch.inf).masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)


class MultiHeadAttention(nn.Module):
    """Multi-head attention, with all heads in one tensor (given; see exercise 6).

    Parameters
    ----------
    d_model : int
        The width of queries, keys, values and results.
    num_heads : int
        The number of heads h, at least 1.
    bias : bool
        Whether the four projections have a bias.

    Raises
    ------
    ValueError
        If d_model is not a multiple of num_heads.
    """

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model = {d_model} is no multiple of num_heads = {num_heads}")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        """Attend with all heads at once, and mix the results.

        Parameters
        ----------
        query : tensor, shape (b, n_q, d_model)
        key : tensor, shape (b, n_k, d_model), optional
            Default: `query`, which makes it self-attention.
        value : tensor, shape (b, n_k, d_model), optional
            Default: `key`.
        mask : tensor of bool, optional
            True where the query may attend to the key: (n_q, n_k), (b, n_q or 1, n_k), or four axes. None means everywhere.

        Returns
        -------
        out : tensor, shape (b, n_q, d_model)
        weights : tensor, shape (b, h, n_q, n_k)
            Both are returned in a tuple, in this order.

        Raises
        ------
        ValueError, RuntimeError
            If sizes do not match.
        """
        key = query if key is None else key
        value = key if value is None else value
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)  # one for each sequence, the same for all heads: (b, 1, n_q or 1, n_k)
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (b, h, n_q or n_k, d_head)
            for layer, x in ((self.W_q, query), (self.W_k, key), (self.W_v, value))
        )
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), mask)  # (b, h, n_q, n_k)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A

# %% ask_by_hand [markdown]
# ## With a pencil: one token goes through a layer
#
# *About 15 minutes · medium ●●○*
#
# A sequence has a single token, $x = (1, 1, 5, 5)$. It goes through an encoder layer: attention with the weights below,
# then a feed-forward network with two hidden units ($d_\text{ff} = 2$, its inner width). Both layer norms have gain 1
# (PyTorch calls it `weight`) and bias 0, nothing else has a bias, and row vectors are on the left of matrices.
#
# $$
# W_v = I \qquad
# W_o = \begin{pmatrix} 0 & 0 & 1 & 0 \\ 0 & 1 & 1 & 0 \\ 2 & 1 & 0 & 2 \\ 0 & 0 & 0 & 2 \end{pmatrix} \qquad
# W_1 = \begin{pmatrix} 0 & 3 \\ 0 & 9 \\ 0 & 0 \\ 6 & 0 \end{pmatrix} \qquad
# W_2 = \begin{pmatrix} 0.5 & 1 & 0 & -0.2 \\ 1 & 0 & 2 & 1 \end{pmatrix}
# $$
#
# **Find the output**, four numbers: $x' = x + \text{attention}(\text{norm}(x))$, then
# $x' + \text{feed-forward}(\text{norm}(x'))$. You do not need $W_q$ and $W_k$: why? To two decimals, $\text{GELU}(10) = 10$
# and $\text{GELU}(-10) = 0$, and the $10^{-5}$ that a layer norm adds to the variance has no visible effect.

# %% by_hand
def by_hand():
    """Return the output of the layer for this token, computed by hand.

    Returns
    -------
    list of 4 numbers
        A tuple, an array or a tensor also works.
    """
    ### BEGIN SOLUTION
    return [8, 11, 3, 7]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Rules for this notebook
#
# - b is the number of sequences, n the number of tokens, m the number of tokens in a `memory`, and h = `num_heads`.
#   Everything is batched: three axes (b, n, d_model), or two, (b, n), for tokens that are whole numbers.
# - A mask is a boolean tensor, and True means "may attend". It has the shape (n_q, n_k), (b, n_q, n_k), (b, 1, n_k), or four
#   axes that match (b, h, n_q, n_k). The given `MultiHeadAttention` accepts all of them: pass a mask on unchanged.
# - Layers are **pre-norm**: each part gets the *normed* stream, and its result is added to the stream *before the norm*.
# - Use `nn.LayerNorm` and `nn.Linear` with their defaults, including biases. There is no dropout; the results in training
#   mode are the same.
# - Parameters have the names that the text gives, because weights are loaded by name: `self_attn.W_q.weight`,
#   `feed_forward.linear1.bias`. In `TinyGPT` you can choose the names.
# - A mask for another number of tokens raises `ValueError`, `RuntimeError` or `IndexError`, as in the given attention.
#   Advice, worth no points: other mismatches also raise one of these; each class lists them under *Raises*.
# - Arguments may be passed by name, `layer(x, mask=mask)`, in any combination. A layer keeps nothing from one call to the
#   next.
# - The result has the floating dtype of the parameters, gradients flow to everything, and inputs are not changed.

# %% ask_FeedForward [markdown]
# ## 7.1 `FeedForward`: each token by itself
#
# *About 10 minutes · easy ●○○*
#
# Attention moves information between tokens; this network processes each token separately. It maps a token to d_ff
# numbers, the *hidden units*, applies GELU to each, and maps them back to d_model:
#
# $$ \text{feed-forward}(x) = \text{linear}_2(\text{GELU}(\text{linear}_1(x))), \qquad \text{GELU}(t) = t \, \Phi(t), $$
#
# where $\Phi(t)$ is the share of a standard normal distribution below t. This is `nn.functional.gelu` with its defaults;
# `approximate="tanh"` is another curve.
#
# By hand, with d_model = d_ff = 1, weights 1 and biases 0: $1 \to \Phi(1) \approx 0.841$ and $-1 \to -\Phi(-1) \approx -0.159$.

# %% FeedForward
class FeedForward(nn.Module):
    """A network of two layers that processes each token separately.

    Parameters
    ----------
    d_model : int
        The width of inputs and outputs.
    d_ff : int
        The number of hidden units.

    Attributes
    ----------
    linear1 : nn.Linear
        From d_model to d_ff.
    linear2 : nn.Linear
        From d_ff to d_model.
    """

    def __init__(self, d_model, d_ff):
        super().__init__()
        ### BEGIN SOLUTION
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        ### END SOLUTION

    def forward(self, x):
        """Apply `linear1`, GELU and `linear2`.

        Parameters
        ----------
        x : tensor, shape (b, n, d_model)

        Returns
        -------
        tensor, shape (b, n, d_model)

        Raises
        ------
        ValueError, RuntimeError or IndexError
            Advice, worth no points: if the last size is not d_model.
        """
        ### BEGIN SOLUTION
        return self.linear2(nn.functional.gelu(self.linear1(x)))  # (b, n, d_model) -> (b, n, d_ff) -> (b, n, d_model)
        ### END SOLUTION

# %%
# For your own experiments. Write the class, then take the # away.
# FeedForward(4, 16)(torch.randn(1, 3, 4))

# %% check_FeedForward
import checks

checks.run("FeedForward", points=2)

# %% ask_EncoderLayer [markdown]
# ## 7.2 `EncoderLayer`: attention, then feed-forward
#
# *About 25 minutes · medium ●●○*
#
# The *stream* x passes straight through, and two parts add to it. Each part gets the stream after its own layer norm:
#
# $$ x' = x + \text{self-attention}(\text{norm}_1(x)) \qquad \text{result} = x' + \text{feed-forward}(\text{norm}_2(x')) $$
#
# This order is called pre-norm. In the first transformer the norm came after the sum, $\text{norm}(x + \text{part}(x))$.
#
# `MultiHeadAttention` returns a tuple, its output and its weights; a layer returns a tensor.
#
# By hand: if the weights and biases of `W_o` and `linear2` are 0, both parts add nothing, and the layer returns x.

# %% EncoderLayer
class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual connection around it (pre-norm).

    Parameters
    ----------
    d_model, num_heads, d_ff : int

    Attributes
    ----------
    self_attn : MultiHeadAttention
    feed_forward : FeedForward
    norm1, norm2 : nn.LayerNorm
        `norm1` comes before `self_attn`, `norm2` before `feed_forward`.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if d_model is not a multiple of num_heads.
    """

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        ### END SOLUTION

    def forward(self, x, mask=None):
        """Apply attention, then the feed-forward network.

        Parameters
        ----------
        x : tensor, shape (b, n, d_model)
        mask : tensor of bool, optional
            True where a token may attend to another; the rules above list its shapes. None means everywhere.

        Returns
        -------
        tensor, shape (b, n, d_model)

        Raises
        ------
        ValueError, RuntimeError or IndexError
            If the mask is for another number of tokens. Advice, worth no points: if the last size is not d_model, or a
            mask of one key would have to be stretched.
        """
        ### BEGIN SOLUTION
        out, _ = self.self_attn(self.norm1(x), mask=mask)
        x = x + out
        return x + self.feed_forward(self.norm2(x))
        ### END SOLUTION

# %%
# For your own experiments.
# EncoderLayer(4, 2, 16)(torch.randn(1, 3, 4))

# %% check_EncoderLayer
import checks

checks.run("EncoderLayer", points=5)

# %% ask_DecoderLayer [markdown]
# ## 7.3 `DecoderLayer`: attention to a memory
#
# *About 25 minutes · hard ●●●*
#
# A decoder layer has one more part. *Cross-attention*, `multihead_attn`, comes between self-attention and the feed-forward
# network: the queries come from the stream, keys and values from `memory`, an encoder's output for another sequence.
#
# $$ x' = x + \text{self-attention}(\text{norm}_1(x)) \qquad x'' = x' + \text{cross-attention}(\text{norm}_2(x'), \text{memory}) \qquad
# \text{result} = x'' + \text{feed-forward}(\text{norm}_3(x'')) $$
#
# The memory is used as it is: the layer does not norm it. `mask`, of shape (n, n), is for self-attention, and `memory_mask`,
# of shape (n, m), for cross-attention. The layer does not create a mask itself: it is causal if the given mask is causal.
#
# By hand: if the weights and bias of `multihead_attn.W_o` are 0, a decoder layer computes the same as an encoder layer, for
# any memory.

# %% DecoderLayer
class DecoderLayer(nn.Module):
    """Self-attention, cross-attention to a memory and a feed-forward network, each with a residual connection (pre-norm).

    Parameters
    ----------
    d_model, num_heads, d_ff : int

    Attributes
    ----------
    self_attn, multihead_attn : MultiHeadAttention
        `multihead_attn` is the cross-attention; PyTorch's layer uses the same name.
    feed_forward : FeedForward
    norm1, norm2, norm3 : nn.LayerNorm
        Before `self_attn`, `multihead_attn` and `feed_forward`, in this order.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if d_model is not a multiple of num_heads.
    """

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.multihead_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        ### END SOLUTION

    def forward(self, x, memory, mask=None, memory_mask=None):
        """Apply self-attention, attention to the memory, then the feed-forward network.

        Parameters
        ----------
        x : tensor, shape (b, n, d_model)
        memory : tensor, shape (b, m, d_model)
        mask : tensor of bool, optional
            For self-attention: (n, n), or another shape from the rules above. None means everywhere.
        memory_mask : tensor of bool, optional
            For cross-attention: (n, m), (b, 1, m) and so on. None means everywhere.

        Returns
        -------
        tensor, shape (b, n, d_model)

        Raises
        ------
        ValueError, RuntimeError or IndexError
            If a mask is for another number of tokens. Advice, worth no points: if a last size is not d_model, or a mask of
            one key would have to be stretched.
        """
        ### BEGIN SOLUTION
        out, _ = self.self_attn(self.norm1(x), mask=mask)
        x = x + out
        out, _ = self.multihead_attn(self.norm2(x), memory, mask=memory_mask)
        x = x + out
        return x + self.feed_forward(self.norm3(x))
        ### END SOLUTION

# %%
# For your own experiments.
# DecoderLayer(4, 2, 16)(torch.randn(1, 3, 4), torch.randn(1, 5, 4))

# %% check_DecoderLayer
import checks

checks.run("DecoderLayer", points=5)

# %% ask_TinyGPT [markdown]
# ## 7.4 `TinyGPT`: a language model
#
# *About 30 minutes · hard ●●●*
#
# Tokens, here words, are whole numbers from 0 to `vocab_size` - 1: all are words, and none is padding. `nn.Embedding` turns
# each into a vector, and its position is added. `num_layers` layers follow, each with its own weights, in an
# `nn.ModuleList`. A last linear layer turns each token's stream into `vocab_size` numbers, its **logits**. Softmax would
# turn them into the probabilities of the *next* token.
#
# A token may attend to itself and to earlier tokens, never to later ones. So a GPT needs no cross-attention and no memory:
# its layers are your `EncoderLayer`, with a causal mask. That gives n predictions at once, none of which can cheat.
#
# This time you choose the parameters, and much else: learned, sinusoidal or rotary positions (d_model / num_heads is even in
# the checks), a norm before the last linear layer or none, and any d_ff (4 d_model is usual). The checks test what all such
# models have in common:
#
# - logits (b, n, vocab_size) for any n from 1 to `max_len`, and an error for longer sequences;
# - the logits at token i depend on all of the tokens 0 to i and their order, and on nothing else: not on later tokens, their
#   number, or other sequences;
# - each layer has its own parameters, which `parameters()` includes;
# - a new model knows nothing: its loss is about the natural logarithm of `vocab_size`, as if it guessed;
# - it can be trained: in 25 steps it learns to continue two alternating tokens, such as 4, 1, 4, 1, 4, ...

# %% TinyGPT
class TinyGPT(nn.Module):
    """A decoder-only transformer: tokens in, logits of the next token out.

    Parameters
    ----------
    vocab_size : int
        The number of different tokens.
    d_model, num_heads, num_layers : int
    max_len : int
        The largest number of tokens that the model can see.

    Attributes
    ----------
    max_len : int

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if d_model is not a multiple of num_heads.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        ### BEGIN SOLUTION
        self.max_len = max_len
        self.token = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)
        ### END SOLUTION

    def forward(self, tokens):
        """Predict the next token at each token.

        Parameters
        ----------
        tokens : tensor of int64, shape (b, n)
            Numbers from 0 to vocab_size - 1, with n from 1 to max_len.

        Returns
        -------
        tensor, shape (b, n, vocab_size)
            Logits: at [:, i], for the token that follows tokens 0 to i.

        Raises
        ------
        ValueError, RuntimeError or IndexError
            Advice, worth no points: if there are more than max_len tokens.
        """
        ### BEGIN SOLUTION
        n = tokens.shape[1]
        if n > self.max_len:
            raise ValueError(f"{n} tokens are more than max_len = {self.max_len}")
        x = self.token(tokens) + self.position(torch.arange(n, device=tokens.device))  # (b, n, d_model)
        mask = torch.ones(n, n, dtype=torch.bool, device=tokens.device).tril()  # (n, n)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))  # (b, n, vocab_size)
        ### END SOLUTION

# %%
# For your own experiments.
# model = TinyGPT(vocab_size=5, d_model=8, num_heads=2, num_layers=2, max_len=6)
# model(torch.tensor([[1, 2, 3]])).shape

# %% check_TinyGPT
import checks

checks.run("TinyGPT", points=5)

# %% ask_generate [markdown]
# ## 7.5 `generate`: one token after another
#
# *About 15 minutes · medium ●●○*
#
# To generate text, pass the current tokens to the model, at first the *prompt*. Append the most likely next token, and pass
# the result to the model again. This is *greedy*: the largest logit wins, nothing is drawn. Only the logits at the last
# token matter.
#
# The model can see `model.max_len` tokens. Once there are more, pass only the **last** `max_len`; return all of them.
#
# By hand, a model with `max_len` = 2 whose next token is the sum of the tokens that it sees, modulo 10, continues 1, 2 with
# 3, 5, 8, 3, 1.
#
# You can choose the mode in which the model generates, training or evaluation. Afterwards the model must be unchanged: the
# mode of all its parts, parameters, their `requires_grad`, hooks and attributes. The same applies if no token is to be added;
# then the result may be the prompt itself. The prompt is not changed.

# %% generate
def generate(model, prompt, num_new_tokens):
    """Continue a prompt with a model, adding the most likely token each time.

    Parameters
    ----------
    model : nn.Module
        Takes tokens (b, n), n from 1 to `model.max_len`, and returns logits (b, n, vocab_size).
    prompt : tensor of int64, shape (b, n)
        At least one token each; there may be more than `model.max_len`.
    num_new_tokens : int
        The number m of tokens to add, at least 0.

    Returns
    -------
    tensor of int64, shape (b, n + m)
        The prompt, followed by the new tokens.
    """
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    tokens = prompt
    with torch.no_grad():
        for _ in range(num_new_tokens):
            logits = model(tokens[:, -model.max_len :])  # (b, at most max_len, vocab_size)
            tokens = torch.cat([tokens, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    model.train(was_training)
    return tokens
    ### END SOLUTION

# %%
# For your own experiments.
# generate(model, torch.tensor([[1, 2, 3]]), 5)

# %% check_generate
import checks

checks.run("generate", points=3)

# %% training [markdown]
# ## Let it learn
#
# This is a small language: "the cat sees the dogs ." There are two animals and their plurals, and the verb agrees with its
# subject, the first animal, even if there are words in between. A model that guesses has a loss of $\ln 9$, the dotted
# line. Sentences are drawn at random, so even a perfect model cannot predict every word: its loss is above 0.

# %% demo_training
import matplotlib.pyplot as plt

words = ". the that cat cats dog dogs sees see".split()
number = {word: i for i, word in enumerate(words)}


def sentence(generator):
    """Draw a sentence: an animal, sometimes with a second one, a verb that agrees with the first, and an animal."""

    def draw(*some):
        return some[torch.randint(len(some), (), generator=generator)]

    subject, other, last = (draw("cat", "cats", "dog", "dogs") for _ in range(3))
    verb = "see" if subject.endswith("s") else "sees"
    inner = ["that", "the", other, "see" if other.endswith("s") else "sees"] if draw(True, False) else []
    return ["the", subject, *inner, verb, "the", last, "."]


def text(generator, sentences):
    return torch.tensor([number[word] for _ in range(sentences) for word in sentence(generator)])


generator = torch.Generator().manual_seed(7)
corpus = text(generator, 2000)
torch.manual_seed(7)
model = TinyGPT(len(words), d_model=32, num_heads=4, num_layers=2, max_len=16)
optimiser = torch.optim.Adam(model.parameters(), 3e-3)
losses = []
for _ in range(200):
    starts = torch.randint(len(corpus) - 17, (32,), generator=generator)
    batch = torch.stack([corpus[start : start + 17] for start in starts])  # (32, 17): 16 tokens, each with its next
    loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(losses)
axes.axhline(math.log(len(words)), color="grey", linestyle=":")
axes.set_xlabel("step")
axes.set_ylabel("loss")
axes.set_ylim(0)
for beginning in ("the cats that the dog sees", "the cat that the dogs see"):
    prompt = torch.tensor([[number[word] for word in beginning.split()]])
    print(" ".join(words[i] for i in generate(model, prompt, 8)[0]))

# %% theirs [markdown]
# ## Your layer and PyTorch's
#
# With the same weights, both layers give the same numbers. In PyTorch's layer, the two linear layers of the feed-forward
# network are direct attributes, attention keeps three projections in one matrix, and boolean masks mean the opposite. By
# default it is post-norm, with ReLU and dropout.

# %% demo_theirs
theirs = nn.TransformerEncoderLayer(
    12, 3, dim_feedforward=20, dropout=0, activation="gelu", batch_first=True, norm_first=True
)
mine = EncoderLayer(12, 3, 20)
state = theirs.state_dict()
moved = {name: state[name] for name in state if name.startswith("norm")}
for kind in ("weight", "bias"):
    moved |= {f"feed_forward.{name}.{kind}": state[f"{name}.{kind}"] for name in ("linear1", "linear2")}
    parts = state[f"self_attn.in_proj_{kind}"].chunk(3)
    moved |= {f"self_attn.{name}.{kind}": part for name, part in zip(("W_q", "W_k", "W_v"), parts, strict=True)}
    moved[f"self_attn.W_o.{kind}"] = state[f"self_attn.out_proj.{kind}"]
mine.load_state_dict(moved)
x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(6))
causal = torch.ones(5, 5, dtype=torch.bool).tril()  # True: may attend
print(f"results differ by {(mine(x, causal) - theirs(x, src_mask=~causal)).abs().max():.1g}")

# %% think [markdown]
# ## To think about: a model without its mask
#
# *About 5 minutes · medium ●●○*
#
# Someone forgets the causal mask in `TinyGPT`, and trains it to predict the next token at each position, as above. What
# happens to the loss? What does `generate` write with this model? And why is this no problem for BERT, which has no causal
# mask? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# The token to be predicted at position i is at position i + 1, in full view. The model learns to look one to the right and
# copy, and its loss falls to almost 0, far below what the language allows: if a loss is too good, look for a leak. At the
# last position there is nothing to the right to copy, and that is the only position that `generate` uses: its prediction was
# hardly ever trained. BERT has another task: some tokens are replaced by a [MASK] token, and the model predicts only those,
# from both sides. The answer is not in view.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: an encoder and a decoder
#
# *About 45 minutes · hard ●●●*
#
# `TinyGPT` never uses your `DecoderLayer`. Build a model that does: an encoder of `EncoderLayer`s reads a sequence of six
# random digits, without a mask; a decoder of `DecoderLayer`s, with a causal mask, writes it **in reverse**, with the
# encoder's output as its memory. Both need positions. Train it with teacher forcing: the decoder gets the right answer,
# shifted by one position. Then let it generate by itself. Look at the cross-attention weights, `multihead_attn`: which digit
# does each position look at? This task has no points and no check.

# %%
# Yours: the stretch task, or anything else.
