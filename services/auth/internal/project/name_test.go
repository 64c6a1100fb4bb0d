package project

import (
	"testing"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestServer_CreateProject_invalidText(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr")
	refused := func(field, value string, err error) {
		require.Equal(t, fault.Invalid, kindOf(err), "%s %q", field, value)
		require.Equal(t, []any{field}, fault.From(err).Fields[0].Loc, "%q", value)
	}
	read, manage := b.as(ann, authn.NeedRead), b.as(ann, authn.NeedManage)
	for _, name := range []string{"a\u202eb", "\u2066a", "a\u200bb", "a\u200db", "a\ufeffb", "a\nb", "a\u0007", " a", "a ", "a\u00a0b", "\u3164", "\u2800"} {
		_, err := b.CreateProject(read, &authv1.CreateProjectRequest{Key: "other", Name: name})
		refused("name", name, err)
		_, err = b.UpdateProject(manage, &authv1.UpdateProjectRequest{ProjectId: p.GetId(), Name: &name})
		refused("name", name, err)
	}
	for _, text := range []string{"a\u202eb", "a\u2067b", "a\u200eb", "a\u061cb", "a\u200bb", "a\x1b[31mb", "a\u0085b", "a\u2028b", "a\u3164b"} {
		_, err := b.CreateProject(read, &authv1.CreateProjectRequest{Key: "other", Name: "Other", Description: &text})
		refused("description", text, err)
		_, err = b.UpdateProject(manage, &authv1.UpdateProjectRequest{ProjectId: p.GetId(), Description: &text})
		refused("description", text, err)
	}
	require.Len(t, b.audits("project.create"), 1)
	require.Empty(t, b.audits("project.update"))
	name, text := "Zoë's 李 à la", "Two lines,\r\n\tone of them indented: \u2764\ufe0f \U0001f469\u200d\U0001f680 می\u200cخواهم"
	got, err := b.UpdateProject(manage, &authv1.UpdateProjectRequest{ProjectId: p.GetId(), Name: &name, Description: &text})
	require.NoError(t, err)
	require.Equal(t, []string{name, text}, []string{got.GetName(), got.GetDescription()})
}
