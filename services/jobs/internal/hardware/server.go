package hardware

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Server implements HardwareService.
type Server struct {
	jobsv1.UnimplementedHardwareServiceServer
	Copy    *Copy
	Changes *Changes
	Teams   Teams
}

// Teams looks up teams. authpeerv1.AccountPeerServiceClient implements it.
type Teams interface {
	GetTeam(ctx context.Context, in *authpeerv1.GetTeamRequest, opts ...grpc.CallOption) (*authpeerv1.Team, error)
}

// GetHardware returns the part of the configuration that the caller may request.
func (s *Server) GetHardware(ctx context.Context, _ *jobsv1.GetHardwareRequest) (*jobsv1.HardwareConfig, error) {
	caller := authn.CallerOf(ctx)
	v, err := s.Copy.Current(ctx)
	if err != nil {
		return nil, err
	}
	open := v.Config.OpenTo(caller.IsAdmin(), caller.Teams)
	return configToProto(&open), nil
}

// GetHardwareConfig returns the whole configuration.
func (s *Server) GetHardwareConfig(ctx context.Context, _ *jobsv1.GetHardwareConfigRequest) (*jobsv1.HardwareConfig, error) {
	v, err := s.Copy.Current(ctx)
	if err != nil {
		return nil, err
	}
	return configToProto(&v.Config), tag(ctx, v)
}

// PutHardwareConfig replaces the configuration.
func (s *Server) PutHardwareConfig(ctx context.Context, req *jobsv1.PutHardwareConfigRequest) (*jobsv1.HardwareConfig, error) {
	r := Request{Config: configFromProto(req.GetSeries(), req.GetProfiles()), Confirm: header(ctx, "x-service-confirm")}
	faults := r.Config.Check()
	unknown, err := s.resolve(ctx, &r.Config)
	if err != nil {
		return nil, err
	}
	if faults = append(faults, unknown...); len(faults) > 0 {
		return nil, fault.InvalidFields(faults...)
	}
	if r.IfMatch, err = version(header(ctx, "if-match")); err != nil {
		return nil, err
	}
	v, err := s.Changes.Replace(ctx, r)
	if impact, ok := errors.AsType[*ImpactError](err); ok {
		if err := grpc.SetHeader(ctx, metadata.Pairs("x-service-impact", impact.Digest)); err != nil {
			return nil, fmt.Errorf("set the impact header: %w", err)
		}
		return nil, fault.New(fault.Conflict, "impact", "%s", impact)
	}
	if err != nil {
		return nil, err
	}
	return configToProto(&v.Config), tag(ctx, v)
}

// resolve looks up the teams that profiles name, and returns a fault for each unknown one.
func (s *Server) resolve(ctx context.Context, c *Config) (faults []fault.Field, err error) {
	ids := map[string]string{}
	for i := range c.Profiles {
		p := &c.Profiles[i]
		for n, key := range p.Teams {
			id, known := ids[key]
			if !known {
				team, err := s.Teams.GetTeam(ctx, &authpeerv1.GetTeamRequest{Team: key})
				if err != nil && !fault.Is(err, fault.Absent) {
					return nil, fmt.Errorf("find team %s: %w", key, err)
				}
				if team.GetKey() == key {
					id = team.GetId()
				}
				ids[key] = id
			}
			if id == "" {
				faults = append(faults, fault.At(fault.TypeValue, "no such team: "+key, "profiles", i, "teams", n))
				continue
			}
			p.TeamIDs = append(p.TeamIDs, id)
		}
	}
	return faults, nil
}

// tag sets the ETag header to the version of a configuration.
func tag(ctx context.Context, v *Version) error {
	if err := grpc.SetHeader(ctx, metadata.Pairs("etag", strconv.Quote(strconv.FormatInt(v.Number, 10)))); err != nil {
		return fmt.Errorf("set the ETag header: %w", err)
	}
	return nil
}

// version parses If-Match: an ETag of the configuration, or `*` for whichever version is in force.
func version(match string) (*int64, error) {
	if match == "" || match == "*" {
		return nil, nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(match, `"`), `"`), 10, 64)
	if err != nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, `Header should be an ETag of the configuration, or *`, "header", "if-match"))
	}
	return &n, nil
}

func header(ctx context.Context, name string) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if values := md.Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}
