"""The bodies of openapi.yaml. Fields that are not known here are passed over: a newer server may send more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

MAX_TOKEN = 2**53 - 1


class Malformed(ValueError):
    """A body is not what openapi.yaml says."""


class Fields:
    """A JSON object, read field by field with its types checked."""

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise Malformed("not an object")
        self._fields: Dict[str, Any] = value

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise Malformed(f"{name} is not a string")
        return value

    def whole(self, name: str) -> int:
        value = self._fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise Malformed(f"{name} is not a whole number")
        return value

    def each(self, name: str) -> List[object]:
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise Malformed(f"{name} is not a list")
        return value

    def has(self, name: str) -> bool:
        return name in self._fields

    def get(self, name: str) -> object:
        return self._fields.get(name)

    def text_or_none(self, name: str) -> Optional[str]:
        return self.text(name) if self.has(name) else None

    def whole_or_none(self, name: str) -> Optional[int]:
        return self.whole(name) if self.has(name) else None

    def metadata(self) -> Mapping[str, str]:
        value = self._fields.get("metadata", {})
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise Malformed("metadata is not pairs of strings")
        return value


@dataclass(frozen=True)
class Claim:
    """A claim on a name, as its owner sees it. id and lease_id are capabilities: keep them secret.

    hold_left_seconds is for how long it is renewed still, None where the service has no bound. principal is who claimed it,
    None where the service does not ask. In a list, id and lease_id are empty if they are not for the caller to see.
    """

    id: str = field(repr=False)
    name: str
    state: str
    position: int
    lease_id: str = field(repr=False)
    ttl_seconds: int
    renew_after_seconds: int
    fencing_token: Optional[int] = None
    holder: Optional[str] = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    hold_left_seconds: Optional[int] = None
    principal: Optional[str] = None

    @property
    def held(self) -> bool:
        return self.state == "held"

    @classmethod
    def read(cls, value: object) -> Claim:
        body = Fields(value)
        if body.text("state") == "held":
            body.whole("fencing_token")
        return cls(
            body.text("id"),
            body.text("name"),
            body.text("state"),
            body.whole("position"),
            body.text("lease_id"),
            body.whole("ttl_seconds"),
            body.whole("renew_after_seconds"),
            body.whole_or_none("fencing_token"),
            body.text_or_none("holder"),
            body.metadata(),
            body.whole_or_none("hold_left_seconds"),
            body.text_or_none("principal"),
        )


@dataclass(frozen=True)
class ClaimPage:
    """A page of claims. next_cursor is None on the last."""

    locks: Tuple[Claim, ...]
    next_cursor: Optional[str] = None

    @classmethod
    def read(cls, value: object) -> ClaimPage:
        body = Fields(value)
        return cls(tuple(map(_listed, body.each("locks"))), body.text_or_none("next_cursor"))


def _listed(value: object) -> Claim:
    return Claim.read({"id": "", "lease_id": "", **value} if isinstance(value, dict) else value)


@dataclass(frozen=True)
class LeaseInfo:
    """A lease, or that of a lock which has its own (then with its fencing_token). id is a capability: keep it secret."""

    id: str = field(repr=False)
    ttl_seconds: int
    renew_after_seconds: int
    fencing_token: Optional[int] = None
    holder: Optional[str] = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    hold_left_seconds: Optional[int] = None

    @classmethod
    def read(cls, value: object) -> LeaseInfo:
        body = Fields(value)
        return cls(
            body.text("id"),
            body.whole("ttl_seconds"),
            body.whole("renew_after_seconds"),
            body.whole_or_none("fencing_token"),
            body.text_or_none("holder"),
            body.metadata(),
            body.whole_or_none("hold_left_seconds"),
        )


@dataclass(frozen=True)
class LeaseStatus:
    """A lease with the locks held on it. ttl_left_seconds is for people: never count from it."""

    id: str = field(repr=False)
    ttl_seconds: int
    renew_after_seconds: int
    ttl_left_seconds: int
    locks: Tuple[Claim, ...]
    fencing_token: Optional[int] = None
    holder: Optional[str] = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    hold_left_seconds: Optional[int] = None

    @classmethod
    def read(cls, value: object) -> LeaseStatus:
        body = Fields(value)
        return cls(
            body.text("id"),
            body.whole("ttl_seconds"),
            body.whole("renew_after_seconds"),
            body.whole("ttl_left_seconds"),
            tuple(map(Claim.read, body.each("locks"))),
            body.whole_or_none("fencing_token"),
            body.text_or_none("holder"),
            body.metadata(),
            body.whole_or_none("hold_left_seconds"),
        )


@dataclass(frozen=True)
class HeldBy:
    """Who holds a lock that was refused."""

    fencing_token: int
    holder: Optional[str] = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    principal: Optional[str] = None

    @classmethod
    def read(cls, value: object) -> HeldBy:
        body = Fields(value)
        return cls(
            body.whole("fencing_token"), body.text_or_none("holder"), body.metadata(), body.text_or_none("principal")
        )


@dataclass(frozen=True)
class InputFault:
    """One place of a request that is at fault: a JSON pointer into the body, or the name of a parameter."""

    detail: str
    pointer: Optional[str] = None
    parameter: Optional[str] = None

    @property
    def place(self) -> str:
        return self.parameter or self.pointer or "the body"

    @classmethod
    def read(cls, value: object) -> InputFault:
        body = Fields(value)
        return cls(body.text("detail"), body.text_or_none("pointer"), body.text_or_none("parameter"))


@dataclass(frozen=True)
class Problem:
    """A failure, as RFC 9457 writes it."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: Tuple[InputFault, ...] = ()
    holder: Optional[HeldBy] = None
    queue_length: Optional[int] = None
    reason: Optional[str] = None

    @classmethod
    def read(cls, value: object) -> Problem:
        body = Fields(value)
        return cls(
            body.text("type"),
            body.text("title"),
            body.whole("status"),
            body.text("detail"),
            body.text("code"),
            tuple(map(InputFault.read, body.each("errors"))) if body.has("errors") else (),
            HeldBy.read(body.get("holder")) if body.has("holder") else None,
            body.whole_or_none("queue_length"),
            body.text_or_none("reason"),
        )
