package secret_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestMint_format(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, kind := range []string{
		secret.KindIngest, secret.KindDeployment, secret.KindRefresh, secret.KindFleetJoin, secret.KindShare, secret.KindDevice,
		secret.KindCode, secret.KindLease, secret.KindLink,
	} {
		token, err := secret.Mint(rand.Reader, kind)
		require.NoError(t, err)
		require.Regexp(t, `^`+kind+`_[0-9A-Za-z]{49}$`, token.Reveal())
		require.Equal(t, kind, secret.Kind(token.Reveal()))
		hash, ok := secret.Parse(kind, token.Reveal())
		require.True(t, ok)
		want := sha256.Sum256([]byte(token.Reveal()))
		require.Equal(t, want[:], hash)
		seen[token.Reveal()[4:]] = true
	}
	require.Len(t, seen, 9)
}

func TestCredential(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		secret.KindIngest: "an ingest token", secret.KindDeployment: "a deployment token", secret.KindRefresh: "a refresh token",
		secret.KindFleetJoin: "a join token", secret.KindShare: "a share token", secret.KindDevice: "", secret.KindCode: "",
		secret.KindLease: "a lease token", secret.KindLink: "a sign-in link",
	} {
		token, err := secret.Mint(rand.Reader, kind)
		require.NoError(t, err)
		require.Equal(t, want, secret.Credential(token.Reveal()), kind)
	}
	require.Equal(t, "an access token", secret.Credential("eyJh.b.c"))
	for _, text := range []string{"", "a.b.c", "eyJh.b", "dtk_", "sk-123"} {
		require.Empty(t, secret.Credential(text), text)
	}
}

func TestMint_knownTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"zeros": {make([]byte, 32), "ing_" + strings.Repeat("0", 43)},
		"ones":  {bytes.Repeat([]byte{0xff}, 32), "ing_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1"},
	} {
		token, err := secret.Mint(bytes.NewReader(c.raw), "ing")
		require.NoError(t, err)
		require.Len(t, token.Reveal(), 53, name)
		require.Equal(t, c.want, token.Reveal()[:47], name)
	}
}

func TestMint_invalidKindOrSource(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "in", "ingx", "ING", "i_g", "in1"} {
		_, err := secret.Mint(rand.Reader, kind)
		require.ErrorContains(t, err, "lower-case letters", kind)
	}
	_, err := secret.Mint(iotest.ErrReader(errors.New("dry")), "ing")
	require.ErrorContains(t, err, "dry")
	_, err = secret.Mint(bytes.NewReader(make([]byte, 31)), "ing")
	require.Error(t, err)
}

// Parse detects every changed character and every truncation.
func TestParse_changedToken(t *testing.T) {
	t.Parallel()
	minted, err := secret.Mint(rand.Reader, "dtk")
	require.NoError(t, err)
	token := minted.Reveal()
	for i := range token {
		for _, c := range "0Az_-. \x00é" {
			if edited := token[:i] + string(c) + token[i+1:]; edited != token {
				_, ok := secret.Parse("dtk", edited)
				require.False(t, ok, "%q", edited)
			}
		}
		_, ok := secret.Parse("dtk", token[:i])
		require.False(t, ok)
	}
	for _, bad := range []string{token + "0", " " + token, token + "\n", strings.ToLower(token), ""} {
		require.Empty(t, secret.Kind(bad))
	}
	_, ok := secret.Parse("ing", token)
	require.False(t, ok, "a token does not parse as a different kind")
	_, ok = secret.Parse("", token)
	require.False(t, ok)
}

func FuzzKind(f *testing.F) {
	f.Add("ing_" + strings.Repeat("0", 49))
	f.Fuzz(func(t *testing.T, s string) {
		if kind := secret.Kind(s); kind != "" {
			require.Regexp(t, `\A[a-z]{3}_[0-9A-Za-z]{49}\z`, s)
		}
	})
}

// A token with extra characters does not parse, and a token does not parse as another kind.
func TestParse_extraCharactersAndOtherKinds(t *testing.T) {
	t.Parallel()
	kinds := []string{
		secret.KindIngest, secret.KindDeployment, secret.KindRefresh, secret.KindFleetJoin, secret.KindShare, secret.KindDevice,
		secret.KindCode, secret.KindLease, secret.KindLink,
	}
	for _, kind := range kinds {
		minted, err := secret.Mint(rand.Reader, kind)
		require.NoError(t, err)
		token := minted.Reveal()
		for at := range len(token) + 1 {
			for _, extra := range []string{"\r", "\n", "\r\n", " ", "\t", "\x00", "=", "0", "\ufeff"} {
				_, ok := secret.Parse(kind, token[:at]+extra+token[at:])
				require.False(t, ok, "%q at %d", extra, at)
			}
		}
		for _, other := range kinds {
			_, ok := secret.Parse(other, token)
			require.Equal(t, other == kind, ok)
			if other != kind {
				_, ok = secret.Parse(other, other+token[3:])
				require.False(t, ok, "the checksum covers the kind")
			}
		}
		_, ok := secret.Parse(kind, strings.ToUpper(kind)+token[3:])
		require.False(t, ok)
	}
}
