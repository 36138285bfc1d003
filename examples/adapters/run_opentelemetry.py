"""A program that reports its model calls to OpenTelemetry, killed between two calls. Its conversation is in clew.

pip install '.[opentelemetry]' opentelemetry-sdk
python examples/adapters/run_opentelemetry.py

The calls below are what an instrumentation of a model's SDK makes. The program itself has no line of clew: two
variables of its environment say where its conversations go.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.util.genai.completion_hook import load_completion_hook
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import (
    InputMessage,
    OutputMessage,
    TextPart,
    ToolCallRequestPart,
    ToolCallResponsePart,
)

CALL = [ToolCallRequestPart({"city": "Turin"}, "weather", "1")]
SAID = [
    InputMessage("user", [TextPart("How is the weather in Turin?")]),
    InputMessage("assistant", CALL),
    InputMessage("tool", [ToolCallResponsePart("sunny", "1")]),
]


def main(killed: bool) -> None:
    """Reports one call, which repeats the conversation so far, and with `killed` dies a moment later."""
    handler = TelemetryHandler(tracer_provider=TracerProvider(), completion_hook=load_completion_hook())
    with handler.inference("openai", request_model="gpt-4o") as invocation:
        invocation.input_messages = SAID[:1] if killed else SAID
        answer = CALL if killed else [TextPart("It is sunny in Turin.")]
        invocation.output_messages = [OutputMessage("assistant", answer)]
    if killed:
        time.sleep(2)  # calls are stored on a thread
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(killed=sys.argv[1] == "killed")
    else:
        import clew

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "chats.db")
            env = {**os.environ, "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "clew", "CLEW_DB": path}
            subprocess.run([sys.executable, __file__, "killed"], check=False, env=env)
            print("The program was killed. It resumes:")
            subprocess.run([sys.executable, __file__, "resumed"], check=True, env=env)
            with clew.open(path) as store:
                for node in store.sessions.latest().path():
                    print(f"{node.role}: {node.message.text or node.message.blocks}")
