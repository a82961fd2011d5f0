"""What the fuzzer has to know beside openapi.yaml: how this server was started, and what a schema cannot say."""

import os
import threading
import time

import schemathesis

MAX_NAME = MAX_HOLDER = 255
MAX_METADATA = 2048
TTL = (2, 86400)
# A lock that a sequence of requests is about outlives it.
LASTING_TTL = 30
MAX_WAIT = int(os.environ["CONTRACT_MAX_WAIT"])


@schemathesis.hook
def before_load_schema(ctx, raw_schema):
    """Bounds are the server's settings; the events of a stream are told apart by their names."""
    parts = raw_schema["components"]
    for schema in ("LockRequest", "LeaseRequest"):
        bound(parts["schemas"][schema]["properties"]["ttl_seconds"], *TTL)
    bound(parts["schemas"]["LockRequest"]["properties"]["wait_seconds"], 0, MAX_WAIT)
    for path in raw_schema["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict):
                shape_events(operation)
    for parameter in raw_schema["paths"]["/locks/{id}"]["get"]["parameters"]:
        if parameter["name"] == "wait_seconds":
            bound(parameter["schema"], 0, MAX_WAIT)


def bound(schema, least, most):
    schema["minimum"], schema["maximum"] = least, most


def shape_events(operation):
    """Makes the schema of a stream one of its events."""
    answer = operation["responses"].get("200", {})
    if "x-events" not in answer:
        return
    answer["content"]["text/event-stream"]["schema"] = {
        "oneOf": [
            {
                "type": "object",
                "required": ["event", "data"],
                "properties": {
                    "event": {"enum": [name]},
                    "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": schema},
                },
            }
            for name, schema in answer["x-events"].items()
        ]
    }


@schemathesis.hook
def map_body(ctx, body):
    if isinstance(body, dict):
        ttl = body.get("ttl_seconds")
        if type(ttl) is int and TTL[0] <= ttl < LASTING_TTL:
            body["ttl_seconds"] = LASTING_TTL
    return body


def only_words_refuse(case):
    """Sizes in bytes, keys without NUL, two that exclude each other, a cursor that no list gave: no schema can say these."""
    body = case.body if isinstance(case.body, dict) else {}
    query = case.query or {}
    metadata = body.get("metadata") or {}
    return (
        max(size(place.get(field)) for place in (body, query) for field in ("name", "prefix")) > MAX_NAME
        or size(body.get("holder")) > MAX_HOLDER
        or sum(size(key) + size(value) for key, value in metadata.items()) > MAX_METADATA
        or any("\0" in key for key in metadata)
        or {"ttl_seconds", "lease_id"} <= body.keys()
        or {"name", "prefix"} <= query.keys()
        or "cursor" in query
    )


def size(text):
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0


# The ids that a request names need not stand, or were broken, names may be another's, keys may stand for another claim.
TAKEN = {200, 201, 202, 204, 404, 409, 410, 422}


@schemathesis.check
def good_input_is_taken(ctx, response, case):
    """What the contract allows is not refused."""
    if case.meta is None or not case.meta.generation.mode.is_positive or case.operation.method.upper() != case.method.upper():
        return
    assert response.status_code in TAKEN or only_words_refuse(case), f"good input is refused: {response.text}"


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """A stream has no end while what it is about stands: its client leaves after the first event."""
    kwargs["hooks"] = {"response": leave}
    if case.method.upper() == "DELETE":
        standing.end((case.path_parameters or {}).get("id"))


def leave(response, *args, **kwargs):
    if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
        return
    text = b""
    for chunk in response.iter_content(chunk_size=None):
        text += chunk
        if b"\ndata:" in text and text.endswith(b"\n\n"):
            break
    response.close()
    response._content = text
    response._content_consumed = True


# How long a place is kept that nobody asks for, and how much of a TTL is left when an answer says that a lock is held.
WAITING_TTL = 15
LEFT_OF_TTL = 2 / 3


class Standing:
    """What was made, until when it stands at the least, and on what lease it is."""

    def __init__(self):
        self.until, self.lease = {}, {}
        self.lock = threading.Lock()

    def made(self, sent, thing):
        """Notes a lock or a lease. The id of a lease is none of a lock, that of a queued lock none of a lease."""
        queued = thing.get("state") == "queued"
        lasts = WAITING_TTL if queued else thing["ttl_seconds"] * LEFT_OF_TTL
        one = thing["id"]
        with self.lock:
            self.lease[one] = thing.get("lease_id", one)
            if "state" in thing:
                self.until["/locks/", one] = sent + lasts
            if self.lease[one] == one and not queued:
                self.until["/leases/", one] = sent + lasts

    def end(self, ended):
        """Forgets what a DELETE may have ended, before it is sent."""
        with self.lock:
            for one in [one for one, lease in self.lease.items() if ended in (one, lease)]:
                del self.lease[one]
                self.until.pop(("/locks/", one), None)
                self.until.pop(("/leases/", one), None)

    def has(self, kind, one):
        with self.lock:
            return self.until.get((kind, one), 0) > time.monotonic()


standing = Standing()


@schemathesis.check
def what_was_made_is_there(ctx, response, case):
    """Nothing is 404 or 410 before its time, unless somebody ended it."""
    if response.status_code in (201, 202):
        standing.made(time.monotonic() - response.elapsed, response.json())
    elif response.status_code in (404, 410) and case.method.upper() != "DELETE":
        kind = "/leases/" if case.path.startswith("/leases/") else "/locks/"
        one = (case.path_parameters or {}).get("id")
        assert not standing.has(kind, one), f"{case.path} is {response.status_code} before its time"


@schemathesis.check
class EveryOperationSucceeds:
    """A run in which an operation was only ever refused has shown nothing about it."""

    def __init__(self):
        self.asked, self.done = set(), set()

    def after_response(self, ctx, response, case):
        self.asked.add(case.operation.label)
        if response.status_code < 300:
            self.done.add(case.operation.label)

    def after_run(self, ctx):
        never = self.asked - self.done
        assert not never, "never answered with 2xx: " + ", ".join(sorted(never))
