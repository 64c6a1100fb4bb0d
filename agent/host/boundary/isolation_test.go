package boundary_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

func TestNewReport(t *testing.T) {
	t.Parallel()
	users := boundary.Users{First: 200_000, Last: 200_999}
	require.Equal(t, boundary.Report{
		Kind: boundary.OwnUser, Required: true, Users: "200000-200999", Namespaces: []string{"ipc", "mount", "pid"}, ClosesNetwork: true,
	}, boundary.NewReport(boundary.OwnUser, boundary.Filtered, boundary.Cgroup2, true, users, true, nil))
	require.Equal(t, boundary.Report{
		Kind: boundary.UserNamespace, Required: true, Namespaces: []string{"ipc", "mount", "pid", "user"},
		Unlimited: []string{"cpu", "devices", "disk", "memory", "network"},
	}, boundary.NewReport(boundary.UserNamespace, boundary.Open, boundary.Rlimit, false, users, true, nil), "limits of single processes do not limit a work")
	require.Equal(t, boundary.Report{
		Kind: boundary.None, Problem: "switched off", Unlimited: []string{"cpu", "devices", "disk", "memory", "network", "processes"},
	}, boundary.NewReport(boundary.None, boundary.Open, boundary.Rlimit, false, users, false, errors.New("switched off")))
}
