"""Exercise 10: what its checks of memory compare."""

import torch

from autograder.authoring import loader


def test_whoever_computes_only_the_last_queries_of_a_long_input_fails():
    """The memory of such a function is small, and all its short results are right."""
    (folder,) = (folder for folder in loader.FOLDERS if folder.name == "10-efficient")
    suite = loader.load(folder).suite

    def last_queries(Q, K, V, chunk_size, causal=False):
        n, last = Q.shape[-2], 64
        if n > 600 and Q.dtype == torch.float32:
            rows = last_queries(Q[..., -last:, :], K, V, chunk_size, causal)
            return torch.cat([torch.zeros(*Q.shape[:-2], n - last, V.shape[-1]), rows], -2)
        S = Q.double() @ K.double().mT / Q.shape[-1] ** 0.5
        if causal:
            places = torch.arange(K.shape[-2])
            S = S.masked_fill(places > places[-n:, None], -torch.inf)
        return (S.softmax(-1) @ V.double()).to(Q.dtype)

    for seed in range(4):
        report = suite.examine("chunked_attention", last_queries, 1.0, seed, diagnosis=False)
        failed = [result.name for result in report.results if result.status.name == "FAILED"]
        assert "chunked_attention_memory" in failed
