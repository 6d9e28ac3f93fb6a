"""The center's page: parties, runs, progress. One document without a script, renewed every few seconds."""

from collections.abc import Collection, Mapping
from html import escape
from typing import Any

from dkpca.network.membership import Consortium

STYLE = """
:root { color-scheme: light dark; --good: #1a7f37; --bad: #b42318; --quiet: #667085; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p, .quiet { color: var(--quiet); } .good { color: var(--good); } .bad { color: var(--bad); }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; }
th, td { text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: anywhere; } @media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff7b72; } }
"""
GOOD, BAD = ("finished", "answered", "here", "connected"), ("failed", "not connected")


def render(consortium: Consortium, told: Mapping[str, Any], reports: Collection[str]) -> str:
    """Return the document; every word from elsewhere is escaped."""
    name = escape(consortium.name)
    here = told["connected"]
    parties = "".join(
        f'<tr><th scope="row">{escape(party)}</th>'
        f"<td>{_colored('connected' if party in here else 'not connected')}</td></tr>"
        for party in told["parties"]
    )
    runs = "".join(_run(run, stands, run in reports) for run, stands in told["runs"].items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>dkpca: {name}</title>'
        f'<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5">'
        f"<style>{STYLE}</style></head><body><main><h1>{name}</h1>"
        f"<p>Center at {escape(consortium.host)}:{consortium.port}. {len(here)} of {len(told['parties'])} parties "
        f"connected; {len(told['runs'])} {'run' if len(told['runs']) == 1 else 'runs'}.</p>"
        f"<h2>Parties</h2><table><tbody>{parties}</tbody></table>"
        f"<h2>Runs</h2>{runs or '<p>None yet: begin one with <code>dkpca submit fit</code>.</p>'}"
        "</main></body></html>"
    )


def _run(run: str, stands: Mapping[str, Any], has_report: bool) -> str:
    state = str(stands.get("state", "unknown"))
    report = f' <a href="/runs/{escape(run)}/report">report</a>' if has_report else ""
    reason = f'<p class="bad">{escape(str(stands["reason"]))}</p>' if stands.get("reason") else ""
    rows = "".join(
        f'<tr><th scope="row">{escape(party)}</th><td>{escape(str(at.get("step", "")))} '
        f"{_colored(str(at.get('state', '')))}</td><td>{escape(str(at.get('reason', '')))}</td></tr>"
        for party, at in sorted(stands.get("parties", {}).items())
    )
    title = f"<h3>{escape(run)}: {escape(str(stands.get('what', '')))} {_colored(state)}{report}</h3>"
    return f"<section>{title}{reason}<table><tbody>{rows}</tbody></table></section>"


def _colored(words: str) -> str:
    color = "good" if words in GOOD else "bad" if words in BAD else "quiet"
    return f'<span class="{color}">{escape(words)}</span>'
