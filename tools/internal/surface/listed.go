package surface

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// list is the content of proto/http_extra_routes.yaml.
type list struct {
	Handlers []struct {
		Handler       string   `yaml:"handler"`
		Credential    string   `yaml:"credential"`
		InMaintenance bool     `yaml:"in_maintenance"`
		Methods       []string `yaml:"methods"`
		Paths         []string `yaml:"paths"`
	} `yaml:"handlers"`
	Streams []struct {
		RPC   string   `yaml:"rpc"`
		Paths []string `yaml:"paths"`
	} `yaml:"streams"`
}

// credentials returns the kinds of credentials that a handler in http_extra_routes.yaml may require.
func credentials() []string { return []string{"none", "user", "ingest", "deployment", "signature"} }

// listed returns the rows of http_extra_routes.yaml.
func (s *schema) listed(data []byte) ([]*Route, error) {
	var l list
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&l); err != nil {
		return nil, fmt.Errorf("parse http_extra_routes.yaml: %w", err)
	}
	var rows []*Route
	for _, h := range l.Handlers {
		if h.Handler == "" || len(h.Methods) == 0 || len(h.Paths) == 0 || !slices.Contains(credentials(), h.Credential) {
			return nil, fmt.Errorf("http_extra_routes.yaml: handler %q needs methods, paths and a credential of %v", h.Handler, credentials())
		}
		for _, path := range h.Paths {
			vars, err := parsePattern(path, true)
			if err != nil {
				return nil, fmt.Errorf("http_extra_routes.yaml: handler %s: %w", h.Handler, err)
			}
			for _, method := range h.Methods {
				rows = append(rows, &Route{
					Method: method, Pattern: path, Kind: Raw, Handler: h.Handler, Credential: h.Credential, InMaintenance: h.InMaintenance, Vars: vars,
				})
			}
		}
	}
	for _, st := range l.Streams {
		for i, path := range st.Paths {
			row, err := s.stream(st.RPC, path)
			if err != nil {
				return nil, fmt.Errorf("http_extra_routes.yaml: stream %s: %w", st.RPC, err)
			}
			row.Additional = i > 0
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// stream binds a server-streaming RPC to a GET. Path variables and Last-Event-ID set the fields of its request.
func (s *schema) stream(rpc, path string) (*Route, error) {
	md, err := s.methodOf(rpc)
	if err != nil {
		return nil, err
	}
	who, err := s.accessOf(md)
	if err != nil {
		return nil, err
	}
	fails, succeeds, err := s.statusesOf(md)
	if err != nil {
		return nil, err
	}
	switch {
	case md.IsStreamingClient() || !md.IsStreamingServer():
		return nil, errors.New("not a server stream")
	case !public(md) || who.credential != "user":
		return nil, errors.New("a stream must require an access token")
	case who.inMaintenance || who.limit != 0:
		return nil, errors.New("a stream must set neither in_maintenance nor a limit")
	}
	vars, err := parsePattern(path, false)
	if err != nil {
		return nil, err
	}
	if err := checkVars(md.Input(), vars); err != nil {
		return nil, err
	}
	if fd := md.Input().Fields().ByName("after"); fd == nil || fd.Kind() != protoreflect.Int64Kind {
		return nil, fmt.Errorf("%s must have a field `int64 after` to resume", md.Input().FullName())
	}
	if err := checkShapes(md); err != nil {
		return nil, err
	}
	row := &Route{
		Method: http.MethodGet, Pattern: path, Kind: Stream, Service: ServiceOf(md), Status: http.StatusOK, RPC: fullMethod(md),
		Vars: vars, Descriptor: md, Fails: fails, Succeeds: succeeds,
	}
	row.allow(who)
	return row, nil
}
