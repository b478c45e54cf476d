// How the search takes a query apart. Chinese has no spaces between words: the words of the index are taken out of it, the
// longest first; a letter that begins none of them is passed over. Other names of a thing (ALIASES, which the build
// writes before this) stand for its own.
// eslint-disable-next-line no-unused-vars -- Sphinx calls it
function splitQuery(query) {
  for (const [alias, name] of Object.entries(ALIASES)) query = query.replaceAll(alias, ` ${name} `);
  const has = (word) => [Search._index.terms, Search._index.titleterms].some((words) => Object.hasOwn(words, word));
  const words = [];
  for (const run of query.match(/\p{Script=Han}+|[^\P{L}\p{Script=Han}]+[\p{N}_]*|[\p{N}_]+/gu) ?? []) {
    if (!/\p{Script=Han}/u.test(run)) {
      words.push(run);
      continue;
    }
    for (let start = 0, length; start < run.length; start += Math.max(length, 1)) {
      for (length = Math.min(8, run.length - start); length && !has(run.slice(start, start + length)); length -= 1);
      if (length) words.push(run.slice(start, start + length));
    }
  }
  return words;
}
