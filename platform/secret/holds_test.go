package secret_test

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// jsonWebToken returns a JSON web token with the given header and a made-up signature.
func jsonWebToken(header string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(header)) + "." + part([]byte(`{"sub":"usr_1"}`)) + "." + part([]byte("a signature"))
}

func TestHolds(t *testing.T) {
	t.Parallel()
	held := []string{
		jsonWebToken(`{"alg":"EdDSA","kid":"k","typ":"at+jwt"}`), jsonWebToken(`{"alg":"EdDSA","kid":"k","typ":"svc-caller+jwt"}`),
	}
	for _, kind := range []string{
		secret.KindIngest, secret.KindDeployment, secret.KindRefresh, secret.KindFleetJoin, secret.KindShare, secret.KindDevice, secret.KindCode,
		secret.KindLease, secret.KindLink,
	} {
		minted, err := secret.Mint(rand.Reader, kind)
		require.NoError(t, err)
		held = append(held, minted.Reveal(), minted.Reveal()[:40], "under_score_"+minted.Reveal(), "dtk_"+minted.Reveal())
	}
	for _, credential := range held {
		for _, text := range []string{"?", "Bearer ?", "a, ?;q=1", "key.?.x", `{"token":"?"}`, "_?_", "-?"} {
			text = strings.ReplaceAll(text, "?", credential)
			require.True(t, secret.Holds(text), text)
		}
		if len(credential) < 50 {
			continue // the encoding of a token that is cut off may lack its last digits
		}
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawURLEncoding, base64.RawStdEncoding} {
			for _, user := range []string{"", "u:", "me:", "you:"} {
				text := encoding.EncodeToString([]byte(user + credential))
				require.True(t, secret.Holds("Basic "+text), text)
				require.True(t, secret.Holds("base64url.bearer.authorization.k8s.io."+text), text)
			}
		}
	}
	for _, text := range []string{
		"", "dtk_", "dtk_short", strings.Repeat("_", 500), "dtk_" + strings.Repeat("-", 60), "xyz_" + strings.Repeat("a", 60), strings.Repeat("eyJ.", 100),
		jsonWebToken(`{"alg":"RS256","typ":"at+jwt"}`), jsonWebToken(`{"alg":"EdDSA","typ":"JWT"}`), "sk-ant-0123456789abcdef0123456789abcdef0123456789",
		strings.Repeat("QUJD", 40), base64.StdEncoding.EncodeToString([]byte(strings.Repeat("any text, ", 20))),
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
	} {
		require.False(t, secret.Holds(text), text)
	}
}
