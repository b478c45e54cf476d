// What the linter holds against the book's JavaScript; `python book/tools/javascript.py` runs it.
import js from "@eslint/js";
import globals from "globals";

const rules = {
  ...js.configs.recommended.rules,
  eqeqeq: "error",
  "max-lines-per-function": ["error", 120],
  "no-shadow": ["error", { allow: ["_"] }],
  "no-var": "error",
  "prefer-const": ["error", { destructuring: "all" }],
};

export default [
  { files: ["book/figures/**/*.js", "book/[0-9][0-9]-*/*.js"], languageOptions: { sourceType: "module", globals: globals.browser }, rules },
  { files: ["autograder/templates/*.js"], languageOptions: { sourceType: "script", globals: globals.browser }, rules },
  {
    files: ["book/_static/*.js"],
    languageOptions: {
      sourceType: "script",
      globals: { ...globals.browser, ALIASES: "readonly", requirejs: "readonly", Scorer: "readonly", Search: "readonly" },
    },
    rules,
  },
];
