package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// What is bounded in bytes, which a contract cannot say, and what only this server knows.
const (
	maxName          = 255
	maxHolder        = 255
	maxMetadataPairs = 16
	maxMetadata      = 2048
	minKey           = 16
	maxKey           = 128
)

// outOfBounds tells what is wrong with a field or parameter, or "". A value of another type is the schema's to refuse.
func (s *Server) outOfBounds(field string, value any) string {
	switch value := value.(type) {
	case string:
		return textOutOfBounds(field, value)
	case int64:
		switch field {
		case "ttl_seconds":
			least, most := s.store.TTLBounds()
			return secondsOutOfBounds(value, least, most)
		case "wait_seconds":
			return secondsOutOfBounds(value, 0, s.cfg.MaxWait)
		}
	case map[string]any:
		if field == "metadata" {
			return metadataOutOfBounds(value)
		}
	}
	return ""
}

func secondsOutOfBounds(value int64, least, most time.Duration) string {
	from, to := int64((least+time.Second-1)/time.Second), int64(most/time.Second)
	if value < from || value > to {
		return fmt.Sprintf("must be from %d to %d seconds", from, to)
	}
	return ""
}

func textOutOfBounds(field, text string) string {
	switch field {
	case "name", "prefix":
		if text == "" || len(text) > maxName || strings.ContainsFunc(text, isControl) {
			return fmt.Sprintf("must be 1 to %d bytes of UTF-8 without control characters", maxName)
		}
	case "holder":
		if len(text) > maxHolder || strings.ContainsRune(text, 0) {
			return fmt.Sprintf("must be at most %d bytes of UTF-8 without NUL", maxHolder)
		}
	case idempotencyKey:
		if len(text) < minKey || len(text) > maxKey || strings.ContainsFunc(text, isUnprintable) {
			return fmt.Sprintf("must be %d to %d printable ASCII characters", minKey, maxKey)
		}
	}
	return ""
}

func metadataOutOfBounds(pairs map[string]any) string {
	size, nul := 0, false
	for key, value := range pairs {
		text, _ := value.(string)
		size += len(key) + len(text)
		nul = nul || strings.ContainsRune(key, 0) || strings.ContainsRune(text, 0)
	}
	if len(pairs) > maxMetadataPairs || size > maxMetadata || nul {
		return fmt.Sprintf("must be at most %d pairs of strings, %d bytes of UTF-8 in all, without NUL",
			maxMetadataPairs, maxMetadata)
	}
	return ""
}

func isControl(r rune) bool { return r <= 0x1f || r >= 0x7f && r <= 0x9f }

func isUnprintable(r rune) bool { return r < 0x20 || r > 0x7e }

// schemaFault is a place in a value that the contract does not allow.
type schemaFault struct {
	at     []string
	detail string
}

// schemaFaults says in our words, and without repeating a value, what the contract does not allow.
func schemaFaults(schema *openapi3.Schema, value any) []schemaFault {
	var list []schemaFault
	seen := map[string]bool{}
	for _, err := range flatten(schema.VisitJSON(value, openapi3.MultiErrors())) {
		var fault *openapi3.SchemaError
		if !errors.As(err, &fault) {
			list = append(list, schemaFault{nil, "is not what the contract allows"})
			continue
		}
		at := fault.JSONPointer()
		if fault.SchemaField != "properties" {
			list = append(list, schemaFault{at, sayFault(fault)})
			continue
		}
		// there is an error of this kind for each unknown field, and none says which
		if place := jsonPointer(at); !seen[place] {
			seen[place] = true
			list = append(list, unknownFields(at, fault)...)
		}
	}
	return list
}

func flatten(err error) []error {
	several, ok := err.(openapi3.MultiError)
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var list []error
	for _, e := range several {
		list = append(list, flatten(e)...)
	}
	return list
}

func unknownFields(at []string, fault *openapi3.SchemaError) []schemaFault {
	var list []schemaFault
	known := fault.Schema.Properties
	object, _ := fault.Value.(map[string]any)
	for field := range object {
		if known[field] == nil {
			list = append(list, schemaFault{append(slices.Clone(at), field), "is not a field here" + meant(field, known)})
		}
		if len(list) == maxFaults {
			break
		}
	}
	return list
}

// meant names the field whose case was not met.
func meant(field string, known openapi3.Schemas) string {
	for name := range known {
		if strings.EqualFold(name, field) {
			return ": did you mean " + name + "?"
		}
	}
	return ""
}

func sayFault(fault *openapi3.SchemaError) string {
	schema := fault.Schema
	switch fault.SchemaField {
	case "type":
		return "must be " + typeName(schema)
	case "nullable":
		return "must not be null"
	case "required":
		return "is required"
	case "enum":
		allowed, _ := json.Marshal(schema.Enum)
		return "must be one of " + string(allowed)
	case "minimum", "maximum":
		return rangeOf("", schema.Min, schema.Max)
	case "minLength", "maxLength":
		least := float64(schema.MinLength)
		var most *float64
		if schema.MaxLength != nil {
			length := float64(*schema.MaxLength)
			most = &length
		}
		return rangeOf(" characters long", &least, most)
	case "maxProperties":
		return fmt.Sprintf("must have at most %d fields", *schema.MaxProps)
	case "pattern":
		return "must match " + schema.Pattern
	}
	return "is not what the contract allows"
}

func typeName(schema *openapi3.Schema) string {
	switch {
	case schema.Type.Is(openapi3.TypeInteger):
		return wholeNumber
	case schema.Type.Is(openapi3.TypeString):
		return "a string"
	case schema.Type.Is(openapi3.TypeBoolean):
		return "true or false"
	}
	return "an object"
}

func rangeOf(unit string, least, most *float64) string {
	switch {
	case most == nil:
		return fmt.Sprintf("must be at least %.0f%s", *least, unit)
	case least == nil:
		return fmt.Sprintf("must be at most %.0f%s", *most, unit)
	}
	return fmt.Sprintf("must be from %.0f to %.0f%s", *least, *most, unit)
}
