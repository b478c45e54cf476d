// The mathematics that several figures need.

/** Dot product of two vectors of the same length. */
export function dot(a, b) {
  return a.reduce((sum, x, i) => sum + x * b[i], 0);
}

/** Softmax of n scores: n positive numbers that sum to 1. */
export function softmax(scores) {
  const most = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const total = powers.reduce((sum, e) => sum + e, 0);
  return powers.map((e) => e / total);
}

/** The places of the largest numbers: one, or several that are level. */
export function largest(numbers) {
  const most = Math.max(...numbers);
  return numbers.flatMap((x, j) => (most - x < 1e-9 ? [j] : []));
}

/** (n, k) times (k, m) -> (n, m), as lists of rows. */
export function matmul(A, B) {
  return A.map((row) => B[0].map((_, c) => row.reduce((sum, a, k) => sum + a * B[k][c], 0)));
}

/** The error function, to the last digits: a series of positive terms. */
export function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** x times the share of a normal distribution below x. */
export const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));

/** One row: mean 0 and variance 1, then gain and bias. */
export function layerNorm(x, gain, bias, epsilon = 1e-5) {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  return x.map((value, c) => ((value - mean) / Math.sqrt(variance + epsilon)) * gain[c] + bias[c]);
}

/** One row through an nn.Linear, whose weight is (out, in). */
export function affine(x, weight, bias) {
  return weight.map((row, c) => dot(row, x) + bias[c]);
}

/** The sum of two rows. */
export const plus = (a, b) => a.map((x, c) => x + b[c]);
