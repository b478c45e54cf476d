"""How tests start a browser, and axe, which finds on a page what not everyone can use."""

from pathlib import Path

# A fresh profile would otherwise contact its maker: noise in tests that assert that no page
# contacts anyone.
QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
]
AXE = Path(__file__).resolve().parents[2] / "_build/npm/node_modules/axe-core/axe.min.js"
# What axe finds on a page with the rules that it runs by default.
VIOLATIONS = (
    "axe.run().then(result => result.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
)
