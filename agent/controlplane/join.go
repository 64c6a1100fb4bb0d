package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// InMemory joins over a connection within the process.
type InMemory struct{ Fleet jobsv1.FleetServiceClient }

// Join implements Joiner.
func (j InMemory) Join(ctx context.Context, req *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error) {
	response, err := j.Fleet.JoinFleet(ctx, req)
	if err != nil && permanent(err) {
		return nil, errors.Join(ErrRefused, err)
	}
	return response, err
}

// OverHTTP joins through the gateway's REST API.
type OverHTTP struct {
	// Server is the gateway's base URL.
	Server string
	Client *http.Client
}

type joinRequest struct {
	Token              string        `json:"token"`
	Hostname           string        `json:"hostname"`
	CertificateRequest string        `json:"certificate_request"`
	Inventory          joinInventory `json:"inventory"`
}

type joinInventory struct {
	CPUs        int32  `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"`
	GPUs        int32  `json:"gpus"`
	Limits      string `json:"limits"`
	Version     string `json:"version"`
}

type joinResponse struct {
	NodeID        string `json:"node_id"`
	Certificate   string `json:"certificate"`
	CACertificate string `json:"ca_certificate"`
	AgentAddress  string `json:"agent_address"`
	HeartbeatS    int32  `json:"heartbeat_s"`
}

const maxJoinResponse = 1 << 20

// Join implements Joiner.
func (j OverHTTP) Join(ctx context.Context, req *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error) {
	i := req.GetInventory()
	body, err := json.Marshal(joinRequest{
		Token: req.GetToken(), Hostname: req.GetHostname(), CertificateRequest: req.GetCertificateRequest(),
		Inventory: joinInventory{
			CPUs: i.GetCpus(), MemoryBytes: i.GetMemoryBytes(), GPUs: i.GetGpus(), Limits: i.GetLimits(), Version: i.GetVersion(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the join request: %w", err)
	}
	url := strings.TrimRight(j.Server, "/") + "/api/fleets/join"
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create the join request: %w", err)
	}
	call.Header.Set("Content-Type", "application/json")
	resp, err := j.Client.Do(call)
	if err != nil {
		return nil, fmt.Errorf("send the join request to %s: %w", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxJoinResponse))
	if err != nil {
		return nil, fmt.Errorf("read the join response: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, joinRefusal(resp.StatusCode, raw)
	}
	var a joinResponse
	if err := json.Unmarshal(raw, &a); err != nil || a.NodeID == "" {
		return nil, errors.New("the join response contains no node_id")
	}
	if _, _, err := net.SplitHostPort(a.AgentAddress); err != nil {
		return nil, errors.Join(ErrRefused, fmt.Errorf("the server has no valid agent address (agent_address is %q); "+
			"set SERVICE_JOBS_AGENT_LISTEN and SERVICE_JOBS_AGENT_ADDRESS on the server", a.AgentAddress))
	}
	return &jobsv1.JoinFleetResponse{
		NodeId: a.NodeID, Certificate: a.Certificate, CaCertificate: a.CACertificate,
		AgentAddress: a.AgentAddress, HeartbeatS: a.HeartbeatS,
	}, nil
}

func joinRefusal(status int, body []byte) error {
	err := fmt.Errorf("the server responded with status %d: %s", status, executor.Tail(string(body), 1024))
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusUnprocessableEntity:
		return errors.Join(ErrRefused, err)
	}
	return err
}

// permanent reports whether every retry would fail in the same way.
func permanent(err error) bool {
	switch fault.From(err).Kind {
	case fault.Invalid, fault.Refused, fault.Unauthenticated, fault.Forbidden, fault.Absent, fault.Conflict, fault.TooLarge:
		return true
	default:
		return false
	}
}
