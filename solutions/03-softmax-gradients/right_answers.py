"""Right answers that look different from ours; the tests run the checks on them. Students do not get this file.

Some allow any broadcasting, and so fail only advice: these also earn all points.
"""

import numpy as np

from checking import right
from checking.answer_parts import fits, scaled, softmax, transposed
from misconceptions import attend, backward, through_softmax

# by_hand


@right("by_hand")
def by_hand_as_a_tuple():
    return 1.4, -0.9, -0.5


@right("by_hand")
def by_hand_by_the_jacobian():
    a = np.array([0.2, 0.3, 0.5])
    return (np.diag(a) - np.outer(a, a)) @ np.array([10, 0, 2])


# softmax


@right("softmax")
def softmax_log_sum_exp(S):
    top = S.max(-1, keepdims=True)
    return np.exp(S - (top + np.log(np.exp(S - top).sum(-1, keepdims=True))))


@right("softmax")
def softmax_log_add_exp_of_differences(S):
    S = S - S.max(-1, keepdims=True)
    return np.exp(S - np.logaddexp.reduce(S, axis=-1, keepdims=True))


@right("softmax")
def softmax_log_sum_exp_in_float32(S):
    return softmax_log_sum_exp(S.astype(np.float32)).astype(S.dtype)


@right("softmax")
def softmax_in_long_double(S):
    return softmax(S.astype(np.longdouble)).astype(S.dtype)


@right("softmax")
def softmax_row_by_row(S):
    A = np.empty_like(S)
    for at in np.ndindex(*S.shape[:-1]):
        top = max(S[at])
        row = [np.exp(s - top) for s in S[at]]
        A[at] = [e / sum(row) for e in row]
    return A


@right("softmax")
def softmax_of_differences(S):
    """One exponential for each pair; -inf is handled separately, because -inf minus -inf is NaN."""
    gone = np.isneginf(S)
    T = np.where(gone, 0, S).astype(np.float64)
    E = np.exp(np.clip(T[..., None, :] - T[..., :, None], None, 700)) * ~gone[..., None, :]
    return np.where(gone, 0, 1 / E.sum(-1)).astype(S.dtype)


@right("softmax")
def softmax_online(S):
    """One pass: when a larger score appears, the sum so far is scaled down."""
    top, total = np.full(S.shape[:-1], -np.inf), np.zeros(S.shape[:-1])
    for j in range(S.shape[-1]):
        new = np.maximum(top, S[..., j])
        finite = np.where(np.isneginf(new), 0, new)
        total = total * np.exp(top - finite) + np.exp(S[..., j] - finite)
        top = new
    return (np.exp(S - top[..., None]) / total[..., None]).astype(S.dtype)


@right("softmax")
def softmax_torch(S):
    import torch

    return torch.softmax(torch.tensor(S), dim=-1).numpy()


# softmax_jacobian


@right("softmax_jacobian")
def jacobian_loops(a):
    J = np.zeros((len(a), len(a)), dtype=a.dtype)
    for i in range(len(a)):
        for j in range(len(a)):
            J[i, j] = a[i] * (1 - a[i]) if i == j else -a[i] * a[j]
    return J


@right("softmax_jacobian")
def jacobian_of_matrices(a):
    D = np.diag(a.astype(np.float64))
    return (D @ (np.eye(len(a)) - np.ones((len(a), 1)) * a)).astype(a.dtype)


@right("softmax_jacobian")
def jacobian_in_float32(a):
    a32 = a.astype(np.float32)
    return (np.diagflat(a32) - np.einsum("i,j->ij", a32, a32)).astype(a.dtype)


@right("softmax_jacobian")
def jacobian_covariance(a):
    """The covariance of a random vector that is unit vector i with probability a_i."""
    units = np.eye(len(a)) - a
    return (units.T @ (a[:, None] * units)).astype(a.dtype)


@right("softmax_jacobian")
def jacobian_torch(a):
    import torch

    a = torch.tensor(a)
    return (torch.diag(a) - torch.outer(a, a)).numpy()


# softmax_backward


@right("softmax_backward")
def backward_einsum(A, dA):
    return A * (dA - np.einsum("...n,...n->...", A, dA)[..., None])


@right("softmax_backward")
def backward_one_jacobian_at_a_time(A, dA):
    fits(A.shape[-1], dA.shape[-1])
    dS = np.zeros_like(A)
    for row in np.ndindex(*A.shape[:-1]):
        dS[row] = dA[row] @ (np.diag(A[row]) - np.outer(A[row], A[row]))
    return dS


@right("softmax_backward")
def backward_matrix_product(A, dA):
    return A * (dA - (A[..., None, :] @ dA[..., :, None])[..., 0])


@right("softmax_backward")
def backward_in_float32(A, dA):
    fits(A.shape, dA.shape)
    return through_softmax(A.astype(np.float32), dA.astype(np.float32)).astype(A.dtype)


@right("softmax_backward")
def backward_element_by_element(A, dA):
    fits(A.shape, dA.shape)
    dS, n = np.empty_like(A), A.shape[-1]
    for *row, j in np.ndindex(*A.shape):
        a, da = A[tuple(row)], dA[tuple(row)]
        dS[(*row, j)] = sum(
            da[i] * (a[i] * (1 - a[i]) if i == j else -a[i] * a[j]) for i in range(n)
        )
    return dS


@right("softmax_backward")
def backward_torch(A, dA):
    import torch

    fits(A.shape, dA.shape)
    A, dA = torch.tensor(A), torch.tensor(dA)
    return (A * (dA - (A * dA).sum(-1, keepdim=True))).numpy()


# attention_forward


@right("attention_forward")
def forward_queries_scaled(Q, K, V):
    A = softmax((Q * Q.shape[-1] ** -0.5) @ transposed(K))
    return np.matmul(A, V), A


@right("attention_forward")
def forward_both_by_the_fourth_root(Q, K, V):
    root = Q.shape[-1] ** 0.25
    A = softmax((Q / root) @ transposed(K / root))
    return A @ V, A


@right("attention_forward")
def forward_einsum(Q, K, V):
    A = softmax(np.einsum("...qd,...kd->...qk", Q, K) / K.shape[-1] ** 0.5)
    return np.einsum("...qk,...kd->...qd", A, V), A


@right("attention_forward")
def forward_log_sum_exp(Q, K, V):
    A = softmax_log_sum_exp(scaled(Q, K))
    return [A @ V, A]


@right("attention_forward")
def forward_query_by_query(Q, K, V):
    fits(Q.shape[-1], K.shape[-1])
    fits(K.shape[-2], V.shape[-2])
    A = np.zeros((*Q.shape[:-1], K.shape[-2]), dtype=Q.dtype)
    Z = np.zeros((*Q.shape[:-1], V.shape[-1]), dtype=Q.dtype)
    for *lead, i in np.ndindex(*Q.shape[:-1]):
        lead = tuple(lead)
        A[lead][i] = softmax(np.array([Q[lead][i] @ k for k in K[lead]]) / Q.shape[-1] ** 0.5)
        Z[lead][i] = sum(weight * v for weight, v in zip(A[lead][i], V[lead], strict=True))
    return Z, A


@right("attention_forward")
def forward_in_float32(Q, K, V):
    return tuple(
        part.astype(Q.dtype) for part in attend(*(own.astype(np.float32) for own in (Q, K, V)))
    )


@right("attention_forward")
def forward_torch(Q, K, V):
    import torch

    fits(Q.shape[-1], K.shape[-1])
    fits(K.shape[-2], V.shape[-2])
    Q, K, V = torch.tensor(Q), torch.tensor(K), torch.tensor(V)
    A = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    return (A @ V).numpy(), A.numpy()


# attention_backward


@right("attention_backward")
def gradients_step_by_step(Q, K, V, dZ):
    root = Q.shape[-1] ** 0.5
    S = (Q @ transposed(K)) / root
    A = softmax(S)
    fits(dZ.shape, (A @ V).shape)
    dV = np.matmul(transposed(A), dZ)
    dA = np.matmul(dZ, transposed(V))
    products = A * dA
    dS = products - A * products.sum(-1)[..., None]
    return dS @ K / root, transposed(transposed(Q) @ dS) / root, dV


@right("attention_backward")
def gradients_einsum(Q, K, V, dZ):
    _, A = forward_einsum(Q, K, V)
    dA = np.einsum("...qv,...kv->...qk", dZ, V)
    d_products = A * (dA - np.einsum("...qk,...qk->...q", A, dA)[..., None]) / Q.shape[-1] ** 0.5
    return (
        np.einsum("...qk,...kd->...qd", d_products, K),
        np.einsum("...qk,...qd->...kd", d_products, Q),
        np.einsum("...qk,...qv->...kv", A, dZ),
    )


@right("attention_backward")
def gradients_sum_from_the_result(Q, K, V, dZ):
    """The row sum of A * dA is that of Z * dZ, as in FlashAttention."""
    Z, A = attend(Q, K, V)
    fits(Z.shape, dZ.shape)
    d_products = A * (dZ @ transposed(V) - (Z * dZ).sum(-1, keepdims=True)) / Q.shape[-1] ** 0.5
    return [d_products @ K, transposed(d_products) @ Q, transposed(A) @ dZ]


@right("attention_backward")
def gradients_query_by_query(Q, K, V, dZ):
    Z, A = attend(Q, K, V)
    fits(Z.shape, dZ.shape)
    dQ, dK, dV = np.zeros_like(Q), np.zeros_like(K), np.zeros_like(V)
    for *lead, i in np.ndindex(*Q.shape[:-1]):
        lead = tuple(lead)
        a = A[lead][i]
        ds = (np.diag(a) - np.outer(a, a)) @ (V[lead] @ dZ[lead][i]) / Q.shape[-1] ** 0.5
        dQ[lead][i] = ds @ K[lead]
        dK[lead][...] += np.outer(ds, Q[lead][i])
        dV[lead][...] += np.outer(a, dZ[lead][i])
    return dQ, dK, dV


@right("attention_backward")
def gradients_in_float32(Q, K, V, dZ):
    parts = backward(*(own.astype(np.float32) for own in (Q, K, V, dZ)))
    return tuple(own.astype(Q.dtype) for own in parts)


@right("attention_backward")
def gradients_torch(Q, K, V, dZ):
    import torch

    Q, K, V = (torch.tensor(own, requires_grad=True) for own in (Q, K, V))
    fits(Q.shape[-1], K.shape[-1])
    fits(K.shape[-2], V.shape[-2])
    Z = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1) @ V
    fits(tuple(Z.shape), dZ.shape)
    Z.backward(torch.tensor(dZ))
    return Q.grad.numpy(), K.grad.numpy(), V.grad.numpy()
