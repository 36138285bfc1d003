"""Types of a state, read back in a new process."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.graphs import ask, thread


class Mood(enum.Enum):
    CALM = "calm"


@dataclasses.dataclass
class Step:
    name: str


class Plan(BaseModel):
    steps: list[Step]
    mood: Mood | None = None


class Hidden(BaseModel):
    text: str


def joined(old, new):
    return [*(old or []), *new]


class Planned(MessagesState):
    plan: Plan
    done: Annotated[list[Step], joined]
    odd: Any


def graph(saver):
    def model(state):
        plan = Plan(steps=[Step("pack")], mood=Mood.CALM)
        return {"messages": [AIMessage("ok")], "plan": plan, "done": [Step("think")], "odd": Hidden(text="x")}

    made = StateGraph(Planned)
    made.add_node("model", model)
    made.add_edge(START, "model")
    return made.compile(checkpointer=saver)


def test_types_of_the_schema_are_read_back(opened):
    """Classes that the schema of a graph names are read back; another is a dict until it is allowed."""
    with opened(ClewSaver) as saver:
        graph(saver).invoke(ask("plan"), thread("t"))
        target, key = opened.target, opened.key
    with ClewSaver(target, key=key) as saver:
        graph(saver).invoke(ask("again"), thread("t"))
        values = graph(saver).get_state(thread("t")).values
        assert values["plan"] == Plan(steps=[Step("pack")], mood=Mood.CALM)
        assert values["done"] == [Step("think"), Step("think")]
        assert values["odd"] == {"text": "x"}
        allowed = saver.with_allowlist([(Hidden.__module__, "Hidden")])
        assert graph(allowed).get_state(thread("t")).values["odd"] == Hidden(text="x")
