package packager

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// more returns texts with secrets of services and programs.
func (s source) more() []string {
	const bech = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"
	const digit = "0123456789"
	docker := `{"auths": {"quay.io": {}, "https://index.docker.io/v1/": {"auth": "` + s.of(alnum, 24) + `"}}}`
	return []string{
		"import wandb\nwandb.log" + "in(key='" + s.of(lowerHex, 40) + "')\n",
		"wandb.log" + "in(relogin=True, key=\"" + s.of(lowerHex, 40) + "\")\n",
		"wan" + "db_v1_" + s.of(alnum, 22) + "_" + s.of(alnum, 54),
		"login('api" + "_org_" + s.of(letters, 34) + "')",
		"hv" + "s." + s.of(alnum, 24),
		"hv" + "s.CAESI" + s.of(alnum, 90),
		s.of(alnum, 14) + ".atlas" + "v1." + s.of(alnum, 67),
		"DefaultEndpointsProtocol=https;AccountName=a;Account" + "Key=" + s.of(alnum, 86) + "==;EndpointSuffix=core.windows.net",
		"Endpoint=sb://a/;SharedAccess" + "Key=" + s.of(alnum, 43) + "=",
		docker,
		strings.ReplaceAll(docker, `"`, `\"`),
		".dockerconfigjson: " + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(docker, " ", ""))),
		"r" + "8_" + s.of(alnum, 37) + "\n",
		"gs" + "k_" + s.of(alnum, 52),
		"pc" + "sk_" + s.of(alnum, 6) + "_" + s.of(alnum, 63),
		"da" + "pi" + s.of(lowerHex, 32),
		"da" + "pi" + s.of(lowerHex, 32) + "-2",
		"dckr" + "_pat_" + s.of(alnum, 27),
		"do" + "p_v1_" + s.of(lowerHex, 64),
		"S" + "G." + s.of(alnum, 22) + "." + s.of(alnum, 43),
		"xa" + "pp-1-" + s.of(capitals, 11) + "-" + s.of(digit, 13) + "-" + s.of(lowerHex, 64),
		"gls" + "oat-" + s.of(alnum, 20),
		"shp" + "at_" + s.of(lowerHex, 32),
		"lin" + "_api_" + s.of(alnum, 40),
		"nt" + "n_" + s.of(digit, 11) + s.of(alnum, 35),
		"ATA" + "TT3" + s.of(alnum, 186),
		"AGE-SECRET" + "-KEY-1" + s.of(bech, 58),
		`{"kty": "EC", "crv": "P-256", "x": "1", "y": "2", "d": "` + s.of(alnum, 43) + `"}`,
		`{"d":"` + s.of(alnum, 342) + `","e":"AQAB","kty":"RSA"}`,
		"bot = Bot('" + s.of(digit, 10) + ":A" + "A" + s.of(alnum, 33) + "')",
		"https://api.telegram.org/bot" + s.of(digit, 10) + ":A" + "A" + s.of(alnum, 33) + "/getMe",
		`curl -H "Authorization: Bear` + `er ` + s.of(alnum, 40) + `" https://api`,
		`headers = {"Authorization": "Bear` + `er ` + s.of(lowerHex, 40) + `"}`,
		`headers["Authorization"] = "Bear` + `er ` + s.of(alnum, 32) + `"`,
		"//registry.npmjs.org/:_auth" + "Token=123e4567-e89b-12d3-a456-426614174000\n",
		"always-auth=true\n_au" + "th = " + base64.StdEncoding.EncodeToString([]byte("user:pass"+s.of(alnum, 9))) + "\n",
		"//npm.company/:_pass" + "word=\"" + s.of(alnum, 20) + "\"\r\n",
	}
}

// lookAlikes returns texts that resemble secrets of services and programs.
func lookAlikes() []string {
	const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	return []string{
		"wandb.login(key='<your 40 characters>')\nwandb.login()\nrun = '" + hash[:40] + "'\n",
		"wandb.login(key='" + strings.Repeat("x", 40) + "')",
		"wandb_v1_is_the_prefix_of_the_keys_of_the_newer_kind",
		"api_org_members_of_the_organisation_that_owns_the_model",
		"hvs.secrets.kv.v2.read_secret_version(path)\nVAULT_TOKEN=hvs.xxxxxxxxxxxxxxxxxxxxxxxx\n",
		"AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;",
		"AccountKey=<key>;EndpointSuffix=core.windows.net",
		`{"auths": {}}`,
		`{"auths": {"https://index.docker.io/v1/": {}}, "credsStore": "desktop"}`,
		`auths = {"a": {"auth": "none"}}`,
		"r8_unorm_texture_format_with_one_channel_of_8_bits",
		"gsk_attention_kernel_with_shared_memory_for_sequences_of_length_2048",
		"pcsk_9_inhibitors_and_their_effect_on_cholesterol_in_the_blood_2024",
		"dapivirine = dapi(" + hash + ")\n",
		"dapi" + hash,
		"dckr_pat_xxxxxxxxxxxxxxxxxxxxxxxxxxx",
		"dop_v1_" + strings.Repeat("0", 64),
		"SG.settings.configuration_of_the_sensitive_groups_of_the_office",
		"xapp-1-A0000000000-0000000000000-xxxx",
		"shpat_geometry_of_the_atlas_with_polygons",
		"lin_api_version_of_the_linear_client_that_is_installed",
		"ntn_layer_normalisation_of_neural_tensor_networks_of_2013",
		"ATATT3 is the beginning of tokens of Atlassian",
		"if line.startswith('AGE-SECRET-KEY-1'):\n    raise ValueError\n",
		`{"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}`,
		`{"kty": "EC", "d": "..."}`,
		`{"d": "` + hash + `Ab"}`,
		"bot 123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11",
		"2026-11-27T12345678:A line of a log with Words and 12 numbers",
		`curl -H "Authorization: Bearer $TOKEN" https://api`,
		`headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}`,
		"Authorization: Bearer your-token-goes-here-1234567890\n",
		"Authorization: Bearer <token>\n",
		"//registry.npmjs.org/:_authToken=${NPM_TOKEN}\nalways-auth=true\nregistry=https://npm.company/\n",
		"self._auth = HTTPBasicAuthentication2(user1)\n_auth = make_authentication_v2(a, b)\n",
		"next_token=\"eyJ2MSI6IkFCQ0RFRkdISUpLTE1OT1AxMjM0NTY3OFFSU1RVVldY\"\n",
		`{"NextToken": "AAMA7uA0bGzS8eKq9fJdWmXcVtYpLrNh4T5BzQ6w"}`,
		`{"nextPageToken": "CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA2Qzd"}`,
		"page-token: CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA2Qzd\n",
		`continuation_token: "CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA2Qzd"`,
	}
}

func TestPaginationDoesNotHideTokens(t *testing.T) {
	t.Parallel()
	s := source{rand.New(rand.NewChaCha8([32]byte{3}))}
	for _, text := range []string{
		"next_token=" + s.of(alnum, 40) + " password=" + s.of(alnum, 40),
		"next_token=" + s.of(alnum, 40) + "\npage_secret: " + s.of(alnum, 40),
		"page_access_token=" + s.of(alnum, 40),
	} {
		found, err := read(t.Context(), strings.NewReader(text), compileShapes(), 1000, newWindow())
		require.NoError(t, err)
		require.NotNil(t, found.finding, text)
	}
}

// Certificates are not secrets, but the server cannot tell them from keys by their names.
func TestPEMFilesAreRefusedByName(t *testing.T) {
	t.Parallel()
	l := newHarness(t).put("ca.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").list()
	require.Equal(t, []Refusal{{Path: "ca.pem", Rule: "name *.pem"}}, l.Refusals)
}

func TestRead_decodesUTF16(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_" + source{rand.New(rand.NewChaCha8([32]byte{2}))}.of(alnum, 36)
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, before := range []int{0, 7, windowSize/2 - 20, windowSize/2 - 1, windowSize} {
			var text []byte
			for _, r := range "\ufeff" + strings.Repeat("ü\n", before/2) + token + strings.Repeat("\n", before) + "ü" {
				text = order.AppendUint16(text, uint16(r))
			}
			text = append(text, 'x') // half a unit
			got, err := read(t.Context(), strings.NewReader(string(text)), compileShapes(), int64(len(text)), newWindow())
			require.NoError(t, err)
			require.Equal(t, &finding{rule: "GitHub token", line: before/2 + 1}, got.finding)
			require.Equal(t, int64(len(text)), got.size)
		}
	}
	got, err := read(t.Context(), strings.NewReader("\xff\xfe\x00\x00 "+token), compileShapes(), 100, newWindow())
	require.NoError(t, err)
	require.Equal(t, &finding{rule: "GitHub token"}, got.finding, "a binary file is not decoded")
}
