package server

import (
	"reflect"
	"regexp"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
)

// shape is a schema, made ready to be asked often whether a value is surely allowed. Whatever it does not allow is the
// schema's to judge, and to say why.
type shape struct {
	kind                 string
	least, most          *float64
	minLength            int
	maxLength, maxFields int // in bytes, which are never fewer than characters; negative: no bound
	pattern              *regexp.Regexp
	required             []string
	fields               map[string]*shape
	others               *shape // of the fields that have no name here
}

// shapeOf returns nil, which allows nothing, for a schema that says anything that a shape does not look at.
func shapeOf(schema *openapi3.Schema) *shape {
	rest := *schema
	rest.Extensions, rest.Origin = nil, nil
	rest.Title, rest.Description, rest.Default, rest.Example = "", "", nil, nil
	rest.Type, rest.Min, rest.Max, rest.MinLength, rest.MaxLength, rest.Pattern = nil, nil, nil, 0, nil, ""
	rest.Required, rest.Properties, rest.MaxProps, rest.AdditionalProperties = nil, nil, nil, openapi3.AdditionalProperties{}
	if schema.Type.Is(openapi3.TypeInteger) && schema.Format == "int64" {
		rest.Format = "" // every integer that was read is one
	}
	if !reflect.ValueOf(rest).IsZero() || len(schema.Type.Slice()) != 1 {
		return nil
	}
	s := &shape{
		kind: schema.Type.Slice()[0], least: schema.Min, most: schema.Max,
		minLength: int(schema.MinLength), maxLength: bound(schema.MaxLength), maxFields: bound(schema.MaxProps),
		required: schema.Required, fields: make(map[string]*shape, len(schema.Properties)),
	}
	if schema.Pattern != "" {
		pattern, err := regexp.Compile(schema.Pattern)
		if err != nil {
			return nil // contracts write what Go does not
		}
		s.pattern = pattern
	}
	for name, property := range schema.Properties {
		s.fields[name] = shapeOf(property.Value)
	}
	if others := schema.AdditionalProperties.Schema; others != nil {
		s.others = shapeOf(others.Value)
	}
	return s
}

func bound(most *uint64) int {
	if most == nil {
		return -1
	}
	return int(*most)
}

func (s *shape) allows(value any) bool {
	if s == nil {
		return false
	}
	switch value := value.(type) {
	case bool:
		return s.kind == openapi3.TypeBoolean
	case int64:
		return s.kind == openapi3.TypeInteger &&
			(s.least == nil || float64(value) >= *s.least) && (s.most == nil || float64(value) <= *s.most)
	case string:
		return s.kind == openapi3.TypeString && utf8.RuneCountInString(value) >= s.minLength &&
			(s.maxLength < 0 || len(value) <= s.maxLength) && (s.pattern == nil || s.pattern.MatchString(value))
	case map[string]any:
		return s.kind == openapi3.TypeObject && s.allowsFields(value)
	}
	return false
}

func (s *shape) allowsFields(object map[string]any) bool {
	if s.maxFields >= 0 && len(object) > s.maxFields {
		return false
	}
	for _, name := range s.required {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	for name, value := range object {
		field, known := s.fields[name]
		if !known {
			field = s.others
		}
		if !field.allows(value) {
			return false
		}
	}
	return true
}
