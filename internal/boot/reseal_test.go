package boot

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// sealedService is a service with an encrypted column. The column is audit_seal.hash, which contains no valid encrypted
// value.
type sealedService struct{ *keys }

func (sealedService) Sealed() []pg.SealedColumn {
	return []pg.SealedColumn{{Table: "audit_seal", Name: "hash", Key: "audit_id"}}
}

// When a process starts, it looks for values that are encrypted with a former key, and logs those that it cannot
// decrypt.
func TestProcess_resealsAtStart(t *testing.T) {
	t.Parallel()
	e, _, _ := env(t)
	var err error
	e.Keyring, err = secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	out := &output{}
	e.Log = telemetry(t, out).Logger("auth")
	_, err = e.Pool.Exec(t.Context(), `INSERT INTO audit_seal VALUES (1, 'aud_x', decode(repeat('00', 32), 'hex'))`)
	require.NoError(t, err)
	l, err := e.Net.Listen("auth")
	require.NoError(t, err)
	svc := sealedService{newKeys(t)}
	own := func(context.Context) ([]authn.PublicKey, error) { return []authn.PublicKey{svc.key.Public()}, nil }
	workers, err := e.Serve(svc, own, l)
	require.NoError(t, err)
	stop := startWorkers(t, workers, patience)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "audit_seal.hash:aud_x") }, patience, time.Millisecond)
	require.NoError(t, stop())
}
