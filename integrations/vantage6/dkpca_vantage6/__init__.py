"""dkpca as a vantage6 algorithm, for 4.x and 5.x: what differs between them is here, and nowhere else."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from dkpca_vantage6 import center, node

Result = dict[str, Any]
Function = Callable[..., Result]
BEFORE_5 = version("vantage6-algorithm-tools").startswith("4.")

if BEFORE_5:
    from vantage6.algorithm.tools.decorators import algorithm_client, data

    at_node, at_center = data(1), algorithm_client
else:
    from vantage6.algorithm.decorator.action import central, federated
    from vantage6.algorithm.decorator.algorithm_client import algorithm_client
    from vantage6.algorithm.decorator.data import dataframe

    def at_node(function: Function) -> Function:
        """Run where the data are."""
        decorated: Function = federated(dataframe(1)(function))
        return decorated

    def at_center(function: Function) -> Function:
        """Run at the node of one organization, with a client that creates tasks."""
        decorated: Function = central(algorithm_client(function))
        return decorated


@at_node
def describe(df: Any) -> Result:
    """Say how large the table is, and what this node allows."""
    return node.describe(df)


@at_node
def summarize(df: Any, **asked: Any) -> Result:
    """Answer one question about the samples of a fit."""
    return node.answer(df, **asked)


@at_node
def extend(df: Any, **asked: Any) -> Result:
    """Answer one question about a batch of new samples."""
    return node.answer(df, **asked)


@at_center
def fit(client: Any, **asked: Any) -> Result:
    """Fit kernel principal components of all parties' columns."""
    return center.fit(_tasks(client), **asked)


@at_center
def place(client: Any, **asked: Any) -> Result:
    """Place a batch of new samples among the components of a run."""
    return center.place(_tasks(client), **asked)


@at_center
def audit(client: Any, **asked: Any) -> Result:
    """Check a run by true rows of the kernel matrix."""
    return center.audit(_tasks(client), **asked)


def _tasks(client: Any) -> center.Tasks:
    def create(method: str, arguments: dict[str, Any], organization: int) -> Any:
        before = {"input_": {"method": method, "kwargs": arguments}}
        asked: dict[str, Any] = before if BEFORE_5 else {"method": method, "arguments": arguments}
        return client.task.create(**asked, organizations=[organization], name=f"dkpca {method}").get("id")

    return center.Tasks(create, client.wait_for_results)
