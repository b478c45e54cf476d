# %% title [markdown]
# # 14. Serving
#
# You write what a server does between two tokens. Attention reads a cache that is cut into pages (`paged_attention`),
# and prompts of different lengths without padding (`packed_attention`). Prompts share the pages of a common beginning
# (`shared_pages`), and requests take turns (`continuous_batching`). A draft model proposes tokens, and the target model
# accepts some of them (`accept`, `tokens_expected`). Read chapter 14 of the book first.
#
# *About 110 minutes · hard ●●●*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("accept", points=5, seed=...)` in a cell of your own. You can earn partial points, and the checks are
# readable: open `checks.py` next to this notebook. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `14-serving.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import math

import torch

# %% ask_by_hand [markdown]
# ## With a pencil: a drafted word, and a schedule
#
# *About 10 minutes · medium ●●○*
#
# **First**, a vocabulary has four words, 0 to 3. The draft model's distribution is $q = (0.5, 0.3, 0.2, 0)$, the target
# model's is $p = (0.15, 0.4, 0.15, 0.3)$. The draft model has drawn word 0. With what probability does the target model
# keep it? If it does not, the word that takes its place comes from another distribution: what are its four
# probabilities? And what is the acceptance rate α, the probability that *a* word drawn from q is kept?
#
# **Then**, a server has 2 slots, and four requests, 0 to 3. They arrive before the steps $(0, 0, 2, 1)$ and need
# $(4, 1, 2, 3)$ steps. Batching is continuous. In which step does each of them end? The first step has the number 0.
#
# **Find ten numbers**: the probability that word 0 is kept, the four probabilities, α, and the four steps in the order of
# the requests.


# %% by_hand
def by_hand():
    """Return the probabilities and the steps, worked out with a pencil.

    Returns
    -------
    list of 10 numbers
        The probability that word 0 is kept, the four probabilities of the word in its place, α, then the steps in which
        requests 0 to 3 end.
    """
    ### BEGIN SOLUTION
    return [0.3, 0, 0.25, 0, 0.75, 0.6, 3, 0, 5, 3]
    ### END SOLUTION


# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Rules for this notebook
#
# - b is the number of sequences, h the number of query heads, $h_{kv}$ that of key heads, and h is a multiple of $h_{kv}$.
#   Queries and keys have width $d_k$, values have width $d_v$.
# - Attention is scaled by $1/\sqrt{d_k}$. Query head i uses key head i // (h / h_kv), for keys and values.
# - In the first two tasks, all floating-point tensors have one dtype, float32 or float64, and the result has it as well.
#   Gradients flow from the result to all of them: no `detach`, no `.data`, no NumPy on the way. Inputs may have any memory
#   layout.
# - Tokens, pages, requests and steps are whole numbers that begin at 0. Where a list of them is asked for, return a list.
# - The inputs do not change, and nothing is kept from one call to the next.
# - Advice, worth no points: sizes that do not match (the docstrings list them under *Raises*) raise `ValueError`,
#   `RuntimeError` or `IndexError`.

# %% ask_paged_attention [markdown]
# ## 14.1 `paged_attention`: a cache in pages
#
# *About 25 minutes · hard ●●●*
#
# In a decode step each sequence has one new query, and attends to all its tokens in the cache. The cache is one pool of
# pages for all sequences. A page has room for $P$ tokens (`page_size`), and a sequence's pages may be anywhere in the pool,
# in any order. Its row of the *page table* says where:
#
# > Token t of sequence s is on page `table[s, t // P]`, in row t % P of that page.
#
# Sequence s has `lengths[s]` tokens, and its query sees all of them. The last page is often not full. What is in its
# other rows has no effect, even if it is NaN: that is memory that was used before, or never written. The same is true
# for table entries after the last page that is needed, which are −1 or the number of some page. A sequence of length 0
# gets zeros. Two sequences may share pages.
#
# By hand, with P = 2, h = $h_{kv}$ = 1, length 3 and the table row $(4, 1, -1)$: tokens 0 and 1 are the two rows of page 4,
# and token 2 is the first row of page 1. With keys of 0, the three scores are equal, and the result is the mean of the
# three values.


# %% paged_attention
def paged_attention(q, K_pages, V_pages, table, lengths):
    """Attend with one query for each sequence to keys and values that are in pages.

    Parameters
    ----------
    q : tensor, shape (b, h, d_k)
        The queries of one decode step.
    K_pages : tensor, shape (num_pages, page_size, h_kv, d_k)
    V_pages : tensor, shape (num_pages, page_size, h_kv, d_v)
    table : tensor of int32 or int64, shape (b, max_pages)
        `table[s, j]` is the page of tokens j * page_size to (j + 1) * page_size - 1 of sequence s. After the pages that
        a length needs: -1, or the number of any page.
    lengths : tensor of int32 or int64, shape (b,)
        The number of tokens of each sequence; possibly 0.

    Returns
    -------
    tensor, shape (b, h, d_v)
        In the dtype of `q`; 0 for sequences of length 0.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if h is not a multiple of h_kv, the widths of queries and keys differ, or a length is
        beyond the table.
    """
    ### BEGIN SOLUTION
    (b, h, d_k), (_, P, h_kv, width) = q.shape, K_pages.shape
    if h % h_kv or width != d_k or lengths.max() > P * table.shape[1]:
        raise ValueError(
            f"shapes {tuple(q.shape)}, {tuple(K_pages.shape)}, {tuple(table.shape)}, lengths {lengths}"
        )
    rows = []
    for s in range(b):
        t = torch.arange(int(lengths[s]), device=q.device)
        pages = table[s].long()[t // P]
        K, V = K_pages[pages, t % P], V_pages[pages, t % P]  # (n, h_kv, d_k), (n, h_kv, d_v)
        grouped = q[s].unflatten(0, (h_kv, -1))  # (h_kv, h / h_kv, d_k)
        S = torch.einsum("gic,ngc->gin", grouped, K) / math.sqrt(d_k)
        rows.append(torch.einsum("gin,ngc->gic", S.softmax(-1), V).flatten(0, 1))
    return torch.stack(rows)
    ### END SOLUTION


# %%
# For your own experiments. Write the function, then take the # away.
# V_pages = torch.arange(10.0).reshape(5, 2, 1, 1)  # the rows of page 4 are 8 and 9, those of page 1 are 2 and 3
# paged_attention(torch.ones(1, 1, 1), 0 * V_pages, V_pages, torch.tensor([[4, 1, -1]]), torch.tensor([3]))

# %% check_paged_attention
import checks

checks.run("paged_attention", points=6)

# %% ask_packed_attention [markdown]
# ## 14.2 `packed_attention`: prompts without padding
#
# *About 15 minutes · medium ●●○*
#
# In prefill, many prompts of different lengths are computed at once. Padding them all to the longest wastes work. *Packed*
# prompts are one behind the other, in one row of n tokens, and a list of `lengths` says where each begins and ends. The
# attention is causal, and no token sees a token of another sequence.
#
# By hand, with the lengths $[2, 0, 1]$: tokens 0 and 1 are the first sequence, the second is empty, and token 2 is the
# third. Token 1 sees tokens 0 and 1. Tokens 0 and 2 see only themselves, so their results are their own values.


# %% packed_attention
def packed_attention(Q, K, V, lengths):
    """Apply causal attention to several sequences that are one behind the other.

    Parameters
    ----------
    Q : tensor, shape (n, h, d_k)
    K : tensor, shape (n, h_kv, d_k)
    V : tensor, shape (n, h_kv, d_v)
    lengths : list of int
        The length of each sequence, possibly 0. Their sum is n.

    Returns
    -------
    tensor, shape (n, h, d_v)

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if h is not a multiple of h_kv, or the sum of the lengths is not n.
    """
    ### BEGIN SOLUTION
    (n, h, d_k), h_kv = Q.shape, K.shape[1]
    if h % h_kv or sum(lengths) != n:
        raise ValueError(f"shapes {tuple(Q.shape)} and {tuple(K.shape)}, lengths {lengths}")
    number = (
        torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)).to(Q.device)
    )  # of the sequence
    mask = (number == number[:, None]).tril()
    K, V = K.repeat_interleave(h // h_kv, dim=1), V.repeat_interleave(h // h_kv, dim=1)
    S = torch.einsum("ihc,jhc->hij", Q, K) / math.sqrt(d_k)
    A = S.masked_fill(~mask, -torch.inf).softmax(-1)  # (h, n, n)
    return torch.einsum("hij,jhc->ihc", A, V)
    ### END SOLUTION


# %%
# For your own experiments.
# packed_attention(torch.ones(3, 1, 1), torch.ones(3, 1, 1), torch.tensor([[[1.0]], [[3.0]], [[7.0]]]), [2, 0, 1])

# %% check_packed_attention
import checks

checks.run("packed_attention", points=4)

# %% ask_shared_pages [markdown]
# ## 14.3 `shared_pages`: one copy of a common beginning
#
# *About 15 minutes · medium ●●○*
#
# Many prompts begin with the same tokens, such as a long instruction. Keys and values of a token depend on that token and
# on all before it. So the pages of a common beginning can be shared: they are in the cache only once.
#
# A page is shared when it is *full*, and it contains the same tokens as the other prompt's page, and so do *all pages
# before it*. A page that is not full is never shared, even if its tokens are the same, because each sequence goes on
# writing into its own.
#
# Give each prompt its page table, prompt by prompt, and in each prompt from its beginning. A page that is needed for the
# first time gets the next free number: 0, 1, 2 and so on.
#
# By hand, with pages of 2 tokens: the prompts $[7, 8, 9]$, $[7, 8, 9, 5]$ and $[7, 8, 9]$ get the tables $[0, 1]$, $[0, 2]$ and
# $[0, 3]$. All three share page 0. Page 1 and page 3 have one token each and are not shared. There are 4 pages.


# %% shared_pages
def shared_pages(prompts, page_size):
    """Give each prompt its pages, and share those of a common beginning.

    Parameters
    ----------
    prompts : list of lists of int
        The tokens of each prompt. There may be no prompt, and a prompt may be empty: it has no page.
    page_size : int
        How many tokens a page has room for, at least 1.

    Returns
    -------
    (tables, num_pages)
        tables : list of lists of int
            The numbers of the pages of each prompt.
        num_pages : int
            The number of different pages.
    """
    ### BEGIN SOLUTION
    tables, known, num_pages = [], {}, 0
    for prompt in prompts:
        table = []
        for end in range(page_size, len(prompt) + page_size, page_size):
            beginning = tuple(prompt[:end])
            full = len(beginning) == end
            page = known.get(beginning) if full else None
            if page is None:
                page = num_pages
                num_pages += 1
                if full:
                    known[beginning] = page
            table.append(page)
        tables.append(table)
    return tables, num_pages
    ### END SOLUTION


# %%
# For your own experiments.
# shared_pages([[7, 8, 9], [7, 8, 9, 5], [7, 8, 9]], 2)

# %% check_shared_pages
import checks

checks.run("shared_pages", points=4)

# %% ask_continuous_batching [markdown]
# ## 14.4 `continuous_batching`: a new batch in every step
#
# *About 20 minutes · medium ●●○*
#
# A server runs at most `slots` requests in each step. Request r arrives before step `arrivals[r]` and needs `steps[r]` steps,
# which follow one another without a break. With *continuous* batching, a request does not wait for a whole batch to end:
#
# - A request takes a slot in the step before which it arrives, if one is free and no other waits for it.
# - Otherwise it waits. Requests that wait take slots as soon as these are free, in the order in which they arrived. Those
#   that arrived before the same step take them in the order of their numbers.
# - A slot whose request ends in step e is free in step e + 1.
#
# By hand, with one slot, arrivals $[0, 4, 1]$ and steps $[3, 1, 2]$: request 0 runs in steps 0 to 2. Request 2 arrived before
# step 1, waits, and runs in steps 3 and 4. Request 1 runs in step 5. The result is $[2, 5, 4]$.


# %% continuous_batching
def continuous_batching(arrivals, steps, slots):
    """Return the step in which each request ends.

    Parameters
    ----------
    arrivals : list of int
        Request r arrives before step arrivals[r]. The list may be in any order, and empty.
    steps : list of int
        How many steps each request needs, at least 1.
    slots : int
        How many requests run in one step, at most. At least 1.

    Returns
    -------
    list of int
        For each request, the number of its last step. The first step has the number 0.
    """
    ### BEGIN SOLUTION
    free = [0] * slots  # the step from which each slot is free
    ends = [0] * len(steps)
    for r in sorted(range(len(steps)), key=lambda r: arrivals[r]):
        slot = free.index(min(free))
        start = max(free[slot], arrivals[r])
        free[slot] = start + steps[r]
        ends[r] = free[slot] - 1
    return ends
    ### END SOLUTION


# %%
# For your own experiments.
# continuous_batching([0, 4, 1], [3, 1, 2], 1)

# %% check_continuous_batching
import checks

checks.run("continuous_batching", points=4)

# %% ask_accept [markdown]
# ## 14.5 `accept`: the target model checks a draft
#
# *About 15 minutes · hard ●●●*
#
# In a round of speculative decoding, the draft model has drawn k tokens $x_0, \ldots, x_{k-1}$, token i from its
# distribution $q_i$. One step of the target model computes its distributions $p_0, \ldots, p_k$: $p_i$ is that of the token at
# place i, and $p_k$ is that of the token after the draft. (Chapter 14 counts from 1,
# this notebook from 0.) Go through the draft from its beginning:
#
# - Token i is kept if $u_i < p_i(x_i) \,/\, q_i(x_i)$.
# - At the first token that is not kept, the round ends. In its place comes one token that is drawn from
#   $\max(p_i - q_i, 0)$, divided by its sum: the *residual distribution*.
# - If all tokens are kept, one token more is drawn from $p_k$, and the round ends as well.
#
# All random numbers are given, so that the result can be checked: u for keeping, and v for the one token that is drawn.
# To draw from a distribution with v means to take the smallest token for which the sum of the probabilities up to it, its
# own included, is greater than v. Rounding may leave none, if v is nearly 1. Then take the last token whose
# probability in this distribution is above 0.
#
# By hand, with k = 1, q = (0.5, 0.5, 0) and p = (0.25, 0.25, 0.5), in the first place: token 1 is kept if u < 0.5. If not, the
# token in its place is drawn from (0, 0, 1), so it is token 2 for all v. To draw from p itself: v = 0.3 gives token 1, as
# 0.25 is not greater than 0.3, but 0.5 is.


# %% accept
def accept(draft, p, q, u, v):
    """Return the tokens of one round of speculative decoding.

    Parameters
    ----------
    draft : tensor of int64, shape (k,)
        The drafted tokens. k may be 0.
    p : tensor, shape (k + 1, vocab)
        The distributions of the target model, one for each place.
    q : tensor, shape (k, vocab)
        The distributions of the draft model. q[i, draft[i]] is above 0.
    u : tensor, shape (k,)
        A number from 0 (included) to 1 (not included) for each drafted token.
    v : float
        Such a number for the token that is drawn.

    Returns
    -------
    list of int
        The tokens that are kept, then the one that is drawn: 1 to k + 1 tokens.
    """
    ### BEGIN SOLUTION
    tokens = []
    weights = p[-1]
    for i, token in enumerate(draft.tolist()):
        if not u[i] < p[i, token] / q[i, token]:
            weights = (p[i] - q[i]).clamp(min=0)
            weights = weights / weights.sum()
            break
        tokens.append(token)
    exceeds = (weights.cumsum(0) > v).nonzero()
    chosen = exceeds[0] if len(exceeds) else weights.nonzero()[-1]
    return [*tokens, int(chosen)]
    ### END SOLUTION


# %%
# For your own experiments.
# p, q = torch.tensor([[0.25, 0.25, 0.5], [0.0, 0.0, 1.0]]), torch.tensor([[0.5, 0.5, 0.0]])
# accept(torch.tensor([1]), p, q, torch.tensor([0.4]), 0.3), accept(torch.tensor([1]), p, q, torch.tensor([0.6]), 0.3)

# %% check_accept
import checks

checks.run("accept", points=5)

# %% ask_tokens_expected [markdown]
# ## 14.6 `tokens_expected`: what a round is worth
#
# *About 5 minutes · easy ●○○*
#
# Suppose that each drafted token is kept with probability α, whatever the others are, if the round gets to it. Then the mean
# number of tokens of a round is
#
# $$
# 1 + \alpha + \alpha^2 + \ldots + \alpha^k
# $$
#
# The 1 is the token that is drawn at the end, and $\alpha^i$ is the probability that the first i drafted tokens are kept.
#
# By hand, with α = 0.5 and k = 2: 1 + 0.5 + 0.25 = 1.75.


# %% tokens_expected
def tokens_expected(alpha, k):
    """Return the mean number of tokens of a round of speculative decoding.

    Parameters
    ----------
    alpha : float
        The probability that a drafted token is kept, from 0 to 1. Both ends are included.
    k : int
        The number of drafted tokens, possibly 0.

    Returns
    -------
    float
    """
    ### BEGIN SOLUTION
    return float(sum(alpha**i for i in range(k + 1)))
    ### END SOLUTION


# %%
# For your own experiments.
# tokens_expected(0.5, 2)

# %% check_tokens_expected
import checks

checks.run("tokens_expected", points=2)

# %% rounds [markdown]
# ## What the batches and the drafts do
#
# On the left, 60 requests of very different lengths arrive over time. The picture shows the mean number of steps from
# arrival to end, for different numbers of slots: once with your `continuous_batching`, and once if a batch must end as a
# whole before the next one begins. Where do the two lines meet, and why there?
#
# In the middle, the first tokens of 20,000 rounds of your `accept` are counted. The drafts come from q, but the counts
# should be those of p. On the right is the mean number of tokens of a round as `tokens_expected` computes it: from which
# draft length on does another drafted token add almost nothing?

# %% demo_rounds
import matplotlib.pyplot as plt


def static_batching(arrivals, steps, slots):
    """Return the step in which each request ends, if a batch begins only when the one before has ended."""
    order, ends, begin = sorted(range(len(steps)), key=lambda r: arrivals[r]), [0] * len(steps), 0
    while order:
        begin = max(begin, arrivals[order[0]])
        batch = [r for r in order if arrivals[r] <= begin][:slots]
        for r in batch:
            ends[r] = begin + steps[r] - 1
        begin, order = 1 + max(ends[r] for r in batch), [r for r in order if r not in batch]
    return ends


def mean_wait(schedule, slots):
    """Return the mean number of steps from arrival to end."""
    ends = schedule(arrivals, steps, slots)
    return sum(end - arrival + 1 for end, arrival in zip(ends, arrivals, strict=True)) / len(ends)


chance = torch.Generator().manual_seed(14)
arrivals = torch.randint(100, (60,), generator=chance).tolist()
steps = [2 ** int(power) for power in torch.randint(7, (60,), generator=chance)]
p, q = (
    torch.tensor([[0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]]),
    torch.tensor([[0.4, 0.3, 0.2, 0.1]]),
)
drafts = torch.multinomial(q[0], 20_000, replacement=True, generator=chance)
u, v = torch.rand(2, 20_000, generator=chance)
first = [accept(drafts[i : i + 1], p, q, u[i : i + 1], v[i].item())[0] for i in range(20_000)]

figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
slots = [1, 2, 4, 8, 16, 32, 64]
panels[0].loglog(
    slots, [mean_wait(continuous_batching, s) for s in slots], marker="o", label="continuous"
)
panels[0].loglog(
    slots, [mean_wait(static_batching, s) for s in slots], marker="s", label="whole batches"
)
panels[0].set(title="from arrival to end", xlabel="slots", ylabel="steps, mean")
panels[0].legend()
shares = torch.bincount(torch.tensor(first), minlength=4) / len(first)
panels[1].bar(torch.arange(4) - 0.27, q[0], width=0.25, label="draft q")
panels[1].bar(torch.arange(4), p[0], width=0.25, label="target p")
panels[1].bar(torch.arange(4) + 0.27, shares, width=0.25, label="first tokens")
panels[1].set(title="20,000 rounds", xlabel="token", ylabel="share", xticks=range(4), ylim=(0, 0.6))
panels[1].legend()
for alpha in (0.6, 0.8, 0.9):
    panels[2].plot([tokens_expected(alpha, k) for k in range(17)], marker=".", label=f"α = {alpha}")
panels[2].set(title="tokens of a round", xlabel="draft length k", ylabel="mean")
legend = panels[2].legend()

# %% think [markdown]
# ## To think about: when a draft pays
#
# *About 5 minutes · medium ●●○*
#
# One step of the draft model takes a tenth of the time of a step of the target model, and the target model checks k drafted
# tokens in the time of one of its steps. With α = 0.8 and k = 4, how much faster is speculative decoding than decoding with
# the target model alone? And why does the gain disappear when many requests run in each step?
#
# <details><summary>An answer</summary>
#
# A round takes 4 · 0.1 + 1 = 1.4 steps of the target model, and returns 1 + 0.8 + 0.64 + 0.512 + 0.4096 = 3.36 tokens in the
# mean. So decoding is 3.36 / 1.4 = 2.4 times as fast.
#
# Checking five places takes the time of one only while a step is bound by reading the parameters. With many requests in a
# step, it is bound by arithmetic (chapter 9, the critical batch). Then five places take up to five times as long as one, and
# those after a refused token are work for nothing.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: when the pages run out
#
# *About 30 minutes · hard ●●●*
#
# Extend `continuous_batching` to a server whose cache has a fixed number of pages. A request begins with a prompt and
# needs one page more after each `page_size` steps. If no page is free, the request that began last gives its pages back,
# and begins again later, from its prompt. Count the steps that are computed twice. How many pages does a server need so that it
# rarely happens? There are no points and no check for this task.

# %%
# Yours: the stretch task, or anything else.
