// Package conf fills a service's Config from the environment, once, at startup.
//
// A Config is a struct of small structs with go-envconfig tags and a doc tag for the reference page:
//
//	type Config struct {
//		Blob conf.Blob     `env:", prefix=SERVICE_"`
//		Keep time.Duration `env:"SERVICE_JOBS_KEEP, default=720h" doc:"how long finished jobs are kept"`
//	}
//
// If a struct has a method Validate() error, Load calls it after reading the struct's settings without error. Load
// returns all errors joined. The value of a secret.String setting NAME may also be in a file whose path is in
// NAME_FILE. If a tag has no default, the value of the field before Load is the default. Numbers, durations and
// booleans set to the empty string count as not set.
package conf

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// The sources of a value. The layers of a Lookuper may have other sources, such as "flag".
const (
	SourceDefault = "default"
	SourceEnv     = "env"
	SourceFile    = "file"
)

// Setting describes one setting for display. Secrets are redacted.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Source  string `json:"source"`
	Type    string `json:"-"`
	Doc     string `json:"-"`
	Secret  bool   `json:"-"`
}

// Loaded describes the settings that Load has read.
type Loaded struct {
	Settings []Setting // in field order, each name once
	Warnings []string  // for settings in the environment that Load does not know
}

// Option modifies how Load reads the environment.
type Option func(*loader)

// Ignore suppresses warnings about settings with these prefixes, which belong to
// other processes.
func Ignore(prefixes ...string) Option {
	return func(l *loader) { l.ignored = append(l.ignored, prefixes...) }
}

// SettingError reports an invalid setting. A Validate method sets Name to the name in the field's tag; Load prepends
// the prefixes.
type SettingError struct{ Name, Msg string }

// Error implements error.
func (f *SettingError) Error() string { return f.Name + ": " + f.Msg }

// Errorf returns a SettingError.
func Errorf(name, format string, args ...any) error {
	return &SettingError{Name: name, Msg: fmt.Sprintf(format, args...)}
}

// Part is a struct to fill, given as a pointer, and the prefix of its settings.
type Part struct {
	Prefix string
	Config any
}

// Load fills cfg, a pointer to a struct. The error joins a SettingError for every missing or
// invalid setting. Loaded is also returned if some settings are invalid.
func Load(ctx context.Context, from Lookuper, cfg any, options ...Option) (*Loaded, error) {
	return LoadAll(ctx, from, []Part{{Config: cfg}}, options...)
}

// LoadAll is like Load, for all parts of one process. It warns about a setting only if no part reads it.
func LoadAll(ctx context.Context, from Lookuper, parts []Part, options ...Option) (*Loaded, error) {
	l := &loader{ctx: ctx, from: from, known: map[string]int{}, out: &Loaded{}}
	for _, o := range options {
		o(l)
	}
	for _, part := range parts {
		target := reflect.ValueOf(part.Config)
		if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
			return nil, fmt.Errorf("load settings: %T is not a pointer to a struct", part.Config)
		}
		l.walk(target.Elem(), part.Prefix)
	}
	l.out.Warnings = l.unknown()
	return l.out, errors.Join(unique(l.faults)...)
}

// Describe returns the settings of a Config without reading the environment.
func Describe(cfg any) ([]Setting, error) {
	fresh := reflect.New(reflect.TypeOf(cfg))
	fresh.Elem().Set(reflect.ValueOf(cfg))
	l := &loader{ctx: context.Background(), known: map[string]int{}, out: &Loaded{}, describe: true}
	l.walk(fresh.Elem(), "")
	return l.out.Settings, errors.Join(unique(l.faults)...)
}

type loader struct {
	ctx      context.Context //nolint:containedctx // lives for one call of Load
	from     Lookuper
	known    map[string]int // name to index in out.Settings
	ignored  []string
	describe bool
	out      *Loaded
	faults   []error
}

func (l *loader) fault(name, format string, args ...any) {
	l.faults = append(l.faults, Errorf(name, format, args...))
}

func (l *loader) walk(v reflect.Value, prefix string) {
	before := len(l.faults)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		tag, err := parseTag(field.Tag.Get("env"))
		switch {
		case err != nil:
			l.fault(v.Type().String()+"."+field.Name, "%v", err)
		case tag.name != "":
			l.leaf(v.Field(i), field, prefix, tag)
		case field.Type.Kind() == reflect.Struct:
			l.walk(v.Field(i), prefix+tag.prefix)
		}
	}
	if len(l.faults) == before && !l.describe {
		l.validate(v, prefix)
	}
}

func (l *loader) validate(v reflect.Value, prefix string) {
	checked, ok := reflect.TypeAssert[interface{ Validate() error }](v.Addr())
	if !ok {
		return
	}
	for _, err := range split(checked.Validate()) {
		if f, ok := errors.AsType[*SettingError](err); ok {
			err = &SettingError{Name: prefix + f.Name, Msg: f.Msg}
		}
		l.faults = append(l.faults, err)
	}
}

func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// leaf reads one setting.
func (l *loader) leaf(v reflect.Value, field reflect.StructField, prefix string, tag tag) {
	name := prefix + tag.name
	set := Setting{Name: name, Source: SourceDefault, Doc: field.Tag.Get("doc"), Type: typeName(field.Type)}
	set.Secret = field.Type == reflect.TypeFor[secret.String]()
	if set.Secret && tag.byDefault != "" {
		l.fault(name, "a secret must not have a default")
		return
	}
	if tag.byDefault != "" {
		value, err := l.decode(field, prefix+tag.text, Lookuper{})
		if err != nil {
			l.fault(name, "invalid default: %s", plain(err, field, tag.byDefault))
			return
		}
		v.Set(value)
	}
	set.Default = show(v)
	if !l.describe {
		lookup, source, err := l.source(name, set.Secret, holdsText(field.Type))
		if err == nil && (source != SourceDefault || tag.required) {
			err = l.read(v, field, prefix+tag.text, name, tag.required, lookup)
		}
		if err != nil {
			l.faults = append(l.faults, err)
		}
		set.Source = source
	}
	set.Value = show(v)
	l.add(set)
}

func (l *loader) read(
	v reflect.Value, field reflect.StructField, text, name string, required bool, lookup envconfig.Lookuper,
) error {
	value, err := l.decode(field, text, lookup)
	if err != nil {
		given, _ := lookup.Lookup(name)
		return Errorf(name, "%s", plain(err, field, given))
	}
	if required && value.IsZero() && holdsText(field.Type) {
		return Errorf(name, "must be set")
	}
	if given, ok := reflect.TypeAssert[secret.String](value); ok && placeholder(given.Reveal()) {
		return Errorf(name, "is a placeholder, not a secret; generate a random value")
	}
	v.Set(value)
	return nil
}

// decode passes one field to go-envconfig in a struct of its own, because go-envconfig stops at the first error.
func (l *loader) decode(field reflect.StructField, text string, lookup envconfig.Lookuper) (reflect.Value, error) {
	one := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: field.Name, Type: field.Type, Tag: reflect.StructTag(fmt.Sprintf("env:%q", text)),
	}}))
	err := envconfig.ProcessWith(l.ctx, &envconfig.Config{Target: one.Interface(), Lookuper: lookup})
	return one.Elem().Field(0), err
}

// add lists a setting once. If several Configs declare it, its type and default must be the same in all of them.
func (l *loader) add(s Setting) {
	at, seen := l.known[s.Name]
	if !seen {
		l.known[s.Name] = len(l.out.Settings)
		l.out.Settings = append(l.out.Settings, s)
		return
	}
	if other := l.out.Settings[at]; other.Default != s.Default || other.Type != s.Type {
		l.fault(s.Name, "declared twice: as %s with default %q and as %s with default %q", other.Type, other.Default, s.Type, s.Default)
	}
}

// plain describes why the text of a setting is not a value of the field.
func plain(err error, field reflect.StructField, text string) string {
	number, isNumber := errors.AsType[*strconv.NumError](err)
	switch {
	case errors.Is(err, envconfig.ErrMissingRequired):
		return "must be set"
	case field.Type == reflect.TypeFor[time.Duration]():
		return fmt.Sprintf("must be a duration, such as 30s, 15m or 12h, got %q", text)
	case !isNumber:
		return strings.TrimPrefix(err.Error(), field.Name+": ")
	case number.Func == "ParseFloat":
		return fmt.Sprintf("must be a number, such as 7 or 0.5, got %q", text)
	case number.Func == "ParseBool":
		return fmt.Sprintf("must be true or false, got %q", text)
	case errors.Is(err, strconv.ErrRange):
		return fmt.Sprintf("is out of range, got %q", text)
	}
	return fmt.Sprintf("must be a whole number, got %q", text)
}

// unique returns the errors without those whose text occurs earlier. Several Configs may declare the same setting.
func unique(errs []error) []error {
	seen := map[string]bool{}
	return slices.DeleteFunc(errs, func(err error) bool {
		again := seen[err.Error()]
		seen[err.Error()] = true
		return again
	})
}
