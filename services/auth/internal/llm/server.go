package llm

import (
	"context"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
)

// Server implements AgentService.
type Server struct {
	authv1.UnimplementedAgentServiceServer

	Tester *Tester
}

// TestAgentModel implements AgentService.
func (s *Server) TestAgentModel(ctx context.Context, _ *authv1.TestAgentModelRequest) (*authv1.AgentModelTest, error) {
	r, err := s.Tester.Test(ctx)
	if err != nil {
		return nil, err
	}
	return &authv1.AgentModelTest{
		Configured: r.Configured, Ok: r.OK, Model: r.Model, Endpoint: r.Endpoint, Error: r.Error, Sample: r.Sample,
		ToolsOk: r.ToolsOK, ToolsError: r.ToolsError,
	}, nil
}
