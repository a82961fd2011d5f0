"""The client and openapi.yaml say the same."""

from __future__ import annotations

import dataclasses
import json
import re
import typing
import unittest
from typing import Any, Dict

import latchkey
from latchkey import PROBLEMS, ProblemError, wire
from tests.support import CONTRACT

SCHEMAS = {
    wire.Claim: "Lock",
    wire.ClaimPage: "LockList",
    wire.LeaseInfo: "Lease",
    wire.LeaseStatus: "LeaseStatus",
    wire.Problem: "Problem",
    wire.HeldBy: "LockHolder",
    wire.InputFault: "InputFault",
}

LISTED = {"ListedLock": "Lock"}
"""What others see of a claim: the same class, with empty ids."""

WORDS = {"string": "str", "integer": "int"}


class TestContract(unittest.TestCase):
    contract: Dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        if not CONTRACT:
            raise unittest.SkipTest("openapi.yaml is read by: go test ./sdk/python")
        with open(CONTRACT, encoding="utf-8") as file:
            cls.contract = json.load(file)

    def schema(self, value: Dict[str, Any]) -> Dict[str, Any]:
        while "$ref" in value:
            found: Any = self.contract
            for part in value["$ref"].split("/")[1:]:
                found = found[part]
            value = found
        return value

    def annotation(self, value: Dict[str, Any]) -> str:
        """How a value of this schema is written in Python."""
        schema = self.schema(value)
        if "additionalProperties" in schema and "properties" not in schema:
            return "Mapping[str, str]"
        if schema["type"] == "array":
            return f"Tuple[{self.annotation(schema['items'])}, ...]"
        if schema["type"] == "object":
            of = value["$ref"].rpartition("/")[2]
            return next(cls.__name__ for cls, name in SCHEMAS.items() if name == LISTED.get(of, of))
        return WORDS[schema["type"]]

    def test_every_code_has_a_class_of_its_own(self) -> None:
        told = self.contract["components"]["schemas"]["Problem"]["description"]
        codes = set(re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE))
        reserved = set(re.findall(r"`(\w+)` \(\d+\)", told))
        self.assertEqual(set(PROBLEMS), codes | reserved)
        self.assertGreater(len(codes), 15)
        for code, error in PROBLEMS.items():
            self.assertEqual(error.__name__, "".join(word.title() for word in code.split("_")))
            self.assertTrue(issubclass(error, ProblemError))
            self.assertIs(getattr(latchkey, error.__name__), error)

    def test_every_body_has_the_fields_of_its_schema(self) -> None:
        for cls, name in SCHEMAS.items():
            schema = self.contract["components"]["schemas"][name]
            fields = {field.name: field for field in dataclasses.fields(cls)}
            self.assertEqual(set(fields), set(schema["properties"]), name)
            for field_name, value in schema["properties"].items():
                with self.subTest(schema=name, field=field_name):
                    want = self.annotation(value)
                    field = fields[field_name]
                    optional = field_name not in schema.get("required", [])
                    if optional and not want.startswith(("Mapping", "Tuple")):
                        want = f"Optional[{want}]"
                    self.assertEqual(field.type, want)
                    has_default = (
                        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
                    )
                    self.assertEqual(has_default, optional)

    def test_what_is_listed_has_the_fields_of_its_class(self) -> None:
        schemas = self.contract["components"]["schemas"]
        for listed, name in LISTED.items():
            self.assertEqual(set(schemas[listed]["properties"]), set(schemas[name]["properties"]))
            self.assertEqual(set(schemas[name]["required"]) - set(schemas[listed]["required"]), {"id", "lease_id"})

    def test_what_is_sent_has_the_fields_of_its_schema(self) -> None:
        claim = latchkey._api.claim_request(
            "n", ttl=1, lease_id="l", wait_seconds=1, queue=True, holder="h", metadata={"a": "b"}
        )
        want = self.contract["components"]["schemas"]["LockRequest"]["properties"]
        self.assertEqual(set(claim.body or {}), set(want))
        lease = latchkey._api.lease_request(1, "h", {"a": "b"})
        want = self.contract["components"]["schemas"]["LeaseRequest"]["properties"]
        self.assertEqual(set(lease.body or {}), set(want))

    def test_examples_are_read(self) -> None:
        examples = self.contract["components"]["examples"]
        read = 0
        for name, example in examples.items():
            cls = typing.cast(Any, wire.Claim if name in ("HeldLock", "QueuedLock") else wire.Problem)
            body = cls.read(example["value"])
            read += 1
            if cls is wire.Problem:
                self.assertEqual(body.code, name)
        self.assertGreater(read, 15)
