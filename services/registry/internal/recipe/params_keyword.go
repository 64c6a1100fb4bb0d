package recipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// The limits of the keywords of parameters. The numbers of a schema are computed with as exact fractions, whose size grows
// with the exponent. A pattern is matched in a time proportional to its length as a program and that of the value.
const (
	maxNumber       = 32 // characters of a number
	maxLength       = 1 << 20
	maxValues       = 64  // of enum and examples, and elements of a default
	maxValue        = 256 // bytes of a text
	maxPattern      = 128 // bytes
	maxPatternCost  = 200 // instructions
	maxPatternsCost = 2000
)

// paramCheck checks the schema of one parameter. The cost is that of the patterns of all parameters so far.
type paramCheck struct {
	name string
	cost *int
}

// keywords returns the keywords that a parameter may have, besides items, with the check of their values.
func (c *paramCheck) keywords() map[string]func(json.RawMessage) error {
	return map[string]func(json.RawMessage) error{
		"type": c.kind, "title": c.text, "description": c.text, "pattern": c.pattern, "enum": c.values, "examples": c.values,
		"const": c.values, "default": c.values, "minimum": c.number, "maximum": c.number, "exclusiveMinimum": c.number,
		"exclusiveMaximum": c.number, "multipleOf": c.number, "minLength": c.length, "maxLength": c.length, "minItems": c.length, "maxItems": c.length,
	}
}

func (c *paramCheck) check(keywords map[string]json.RawMessage) error {
	if len(keywords["type"]) == 0 {
		return fmt.Errorf("%s has no type; write number, integer, string, boolean or array", c.name)
	}
	checks := c.keywords()
	for _, keyword := range slices.Sorted(maps.Keys(keywords)) {
		value := keywords[keyword]
		if keyword == "items" {
			if err := c.items(value); err != nil {
				return err
			}
			continue
		}
		check := checks[keyword]
		if check == nil {
			return fmt.Errorf("%s has the keyword %.80q; a parameter may have %s and items", c.name, keyword,
				strings.Join(slices.Sorted(maps.Keys(checks)), ", "))
		}
		if err := check(value); err != nil {
			return fmt.Errorf("%s of %s %w", keyword, c.name, err)
		}
	}
	return nil
}

func (c *paramCheck) items(raw json.RawMessage) error {
	var inner map[string]json.RawMessage
	if json.Unmarshal(raw, &inner) != nil || inner == nil || inner["items"] != nil || strings.Contains(string(inner["type"]), `"array"`) {
		return fmt.Errorf("items of %s must be the schema of a number, a text or a boolean", c.name)
	}
	return c.check(inner)
}

func (*paramCheck) kind(raw json.RawMessage) error {
	var one string
	var many []string
	if json.Unmarshal(raw, &one) == nil {
		many = []string{one}
	} else if json.Unmarshal(raw, &many) != nil || len(many) == 0 || len(many) > 6 {
		many = []string{string(raw)}
	}
	for _, kind := range many {
		if !slices.Contains([]string{"number", "integer", "string", "boolean", "array", "null"}, kind) {
			return fmt.Errorf("is %.40q; write number, integer, string, boolean or array", kind)
		}
	}
	return nil
}

func (*paramCheck) text(raw json.RawMessage) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return fmt.Errorf("must be a text, not %.40s", raw)
	}
	if problem := textProblem(text, maxText); problem != "" {
		return errors.New(problem)
	}
	return nil
}

func (c *paramCheck) pattern(raw json.RawMessage) error {
	var text string
	if json.Unmarshal(raw, &text) != nil || len(text) > maxPattern {
		return fmt.Errorf("must be a text of at most %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return fmt.Errorf("is not a regular expression: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return fmt.Errorf("is not a regular expression: %w", err)
	}
	if *c.cost += len(program.Inst); len(program.Inst) > maxPatternCost || *c.cost > maxPatternsCost {
		return fmt.Errorf("takes %d steps to match, and all patterns together %d; at most %d and %d are allowed. Repeat less",
			len(program.Inst), *c.cost, maxPatternCost, maxPatternsCost)
	}
	return nil
}

// values checks a scalar, or a list of scalars.
func (*paramCheck) values(raw json.RawMessage) error {
	list := []json.RawMessage{raw}
	if strings.HasPrefix(string(raw), "[") {
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
	}
	if len(list) > maxValues {
		return fmt.Errorf("has %d values; write at most %d", len(list), maxValues)
	}
	for _, value := range list {
		var text string
		switch {
		case strings.HasPrefix(string(value), "{") || strings.HasPrefix(string(value), "["):
			return fmt.Errorf("has the value %.40s; a value is a number, a text, true, false or null", value)
		case json.Unmarshal(value, &text) == nil:
			if problem := textProblem(text, maxValue); problem != "" {
				return errors.New(problem)
			}
		case !slices.Contains([]string{"true", "false", "null"}, string(value)):
			if err := checkNumber(string(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (*paramCheck) number(raw json.RawMessage) error {
	var n json.Number
	if strings.HasPrefix(string(raw), `"`) || json.Unmarshal(raw, &n) != nil || n == "" {
		return fmt.Errorf("must be a number, not %.40s", raw)
	}
	return checkNumber(string(n))
}

func checkNumber(n string) error {
	_, exponent, _ := strings.Cut(strings.ToLower(n), "e")
	if _, err := strconv.ParseFloat(n, 64); err != nil || len(n) > maxNumber || len(strings.TrimLeft(exponent, "+-0")) > 2 {
		return fmt.Errorf("has the number %.40s; write one of at most %d characters between 1e-99 and 1e99", n, maxNumber)
	}
	return nil
}

func (*paramCheck) length(raw json.RawMessage) error {
	if n, err := strconv.Atoi(string(raw)); err != nil || n < 0 || n > maxLength {
		return fmt.Errorf("is %.40s; write a whole number from 0 to %d", raw, maxLength)
	}
	return nil
}
