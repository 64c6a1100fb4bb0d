package pylock_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pylock"
)

const (
	sum  = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	hash = " --hash=sha256:" + sum
	good = "idna==3.7" + hash + "\n"
)

// hostile is a lock that must be refused, with the line and a part of the message.
type hostile struct {
	text string
	line int
	want string
}

func hostileRequirements() map[string]hostile {
	return map[string]hostile{
		"other requirements":         {good + "-r /etc/shadow\n", 2, `the option "-r" is not allowed`},
		"other requirements, joined": {good + "-r/etc/shadow\n", 2, "option"},
		"other requirements, long":   {"--requirement=other.txt\n" + good, 1, `the option "--requirement" is not allowed`},
		"constraints":                {"# a\n-c constraints.txt\n", 2, "option"},
		"constraints, long":          {"--constraint constraints.txt\n", 1, "option"},
		"editable":                   {"-e .\n", 1, "option"},
		"editable, long":             {"--editable ./x\n", 1, "option"},
		"index":                      {"--index-url https://evil.example/simple\n", 1, "URL"},
		"index, short":               {"-i evil\n", 1, "option"},
		"extra index":                {"--extra-index-url=//evil\n", 1, "option"},
		"no index":                   {"--no-index\n" + good, 1, "option"},
		"links":                      {good + "\n\n-f /tmp/wheels\n", 4, "option"},
		"links, long":                {"--find-links ../wheels\n", 1, "option"},
		"trusted host":               {"--trusted-host evil.example\n", 1, "option"},
		"source packages":            {"--no-binary :all:\n" + good, 1, "option"},
		"only binary":                {"--only-binary :none:\n", 1, "option"},
		"pre-releases":               {"--pre\n", 1, "option"},
		"features":                   {"--use-feature=fast-deps\n", 1, "option"},
		"no hashes required":         {"--no-require-hashes\n", 1, "option"},
		"option of a requirement":    {"idna==3.7" + hash + " --config-settings=x=y\n", 1, "option"},
		"global option":              {"idna==3.7 --global-option=build_ext" + hash + "\n", 1, "option"},
		"install option":             {"idna==3.7 \\\n  --install-option=--prefix=/ \\\n " + hash + "\n", 2, "option"},
		"local archive":              {"pkg @ file:///x.tar.gz" + hash + "\n", 1, "URL"},
		"local archive, one slash":   {"pkg @ file:/x.tar.gz" + hash + "\n", 1, "file or an address"},
		"local archive, no space":    {"pkg@file:/x.tar.gz" + hash + "\n", 1, "file or an address"},
		"version and address":        {"pkg==1 @ /x" + hash + "\n", 1, "file or an address"},
		"web archive":                {good + "pkg @ https://evil.example/x.whl" + hash + "\n", 2, "URL"},
		"git":                        {"pkg @ git+https://evil.example/x" + hash + "\n", 1, "URL"},
		"git, scp":                   {"git+git@evil.example:x/y\n", 1, "file or an address"},
		"mercurial":                  {"hg+http://evil.example/x#egg=x\n", 1, "URL"},
		"plain URL":                  {"https://evil.example/x.whl" + hash + "\n", 1, "URL"},
		"plain file URL":             {"file:/x.whl" + hash + "\n", 1, "not of the form"},
		"path":                       {"./x.whl" + hash + "\n", 1, "not of the form"},
		"absolute path":              {"/tmp/x-1-py3-none-any.whl" + hash + "\n", 1, "not of the form"},
		"path of a wheel":            {"x-1-py3-none-any.whl\n", 1, "not of the form"},
		"home":                       {"~/x==1" + hash + "\n", 1, "not of the form"},
		"variable":                   {"idna==${SERVICE_JOB_TOKEN}" + hash + "\n", 1, "environment variable"},
		"variable in a hash":         {"idna==3.7 \\\n --hash=sha256:${X}\n", 2, "environment variable"},
		"variable, no braces":        {"idna==$HOME" + hash + "\n", 1, "not an exact version"},
		"command":                    {"idna==3.7`id`" + hash + "\n", 1, "not an exact version"},
		"second command":             {"idna==3.7;os.system('x')" + hash + "\n", 1, "marker"},
		"no version":                 {"idna" + hash + "\n", 1, "not of the form"},
		"range":                      {"idna>=3" + hash + "\n", 1, "not of the form"},
		"two conditions":             {"idna==3.7,<4" + hash + "\n", 1, "not an exact version"},
		"wildcard":                   {"idna==3.*" + hash + "\n", 1, "not an exact version"},
		"arbitrary version":          {"idna===3.7" + hash + "\n", 1, "not of the form"},
		"version of another form":    {"idna==latest" + hash + "\n", 1, "not an exact version"},
		"huge number":                {"idna==99999999999999999999" + hash + "\n", 1, "not an exact version"},
		"parentheses":                {"idna (==3.7)" + hash + "\n", 1, "not of the form"},
		"no hash":                    {good + "certifi==1\n", 2, `"certifi" has no hash`},
		"MD5":                        {"idna==3.7 --hash=md5:0123\n", 1, "not a SHA-256 hash"},
		"SHA-512":                    {"idna==3.7 --hash=sha512:" + sum + sum + "\n", 1, "not a SHA-256 hash"},
		"short hash":                 {"idna==3.7 --hash=sha256:" + sum[1:] + "\n", 1, "not a SHA-256 hash"},
		"text after the hash":        {"idna==3.7" + hash + " other==1\n", 1, "not a SHA-256 hash"},
		"name with a path":           {"../idna==3.7" + hash + "\n", 1, "not of the form"},
		"name with quotes":           {"id'na==3.7" + hash + "\n", 1, "not of the form"},
		"long name":                  {strings.Repeat("a", 200) + "==1" + hash + "\n", 1, "not of the form"},
		"extras":                     {"idna[a;b]==3.7" + hash + "\n", 1, "not of the form"},
		"open extras":                {"idna[a==3.7" + hash + "\n", 1, "not of the form"},
		"marker, variable":           {"idna==3.7 ; os.environ == 'x'" + hash + "\n", 1, "no valid variable"},
		"marker, extra":              {"idna==3.7 ; extra == 'x'" + hash + "\n", 1, "variable extra"},
		"marker, two texts":          {"idna==3.7 ; 'a' == 'a'" + hash + "\n", 1, "must compare a variable with a text"},
		"marker, two variables":      {"idna==3.7 ; os_name == sys_platform" + hash + "\n", 1, "must compare"},
		"marker, open text":          {"idna==3.7 ; os_name == 'posix" + hash + "\n", 1, "no valid text"},
		"marker, no version":         {"idna==3.7 ; python_version > 'new'" + hash + "\n", 1, "not a version"},
		"marker, rest":               {"idna==3.7 ; os_name == 'posix' x" + hash + "\n", 1, "unexpected text"},
		"marker, parentheses":        {"idna==3.7 ; " + strings.Repeat("(", 1000) + "os_name == 'x'" + hash + "\n", 1, "parentheses"},
		"NUL":                        {good + "idna\x00==3.7" + hash + "\n", 2, "control character"},
		"escape":                     {"\x1b[2Jidna==3.7" + hash + "\n", 1, "control character"},
		"line break of Unicode":      {"idna==3.7" + hash + "\u2028-r /etc/shadow\n", 1, "control character"},
		"carriage return":            {"# a\r-r /etc/shadow\n", 1, "control character"},
		"vertical tab":               {"# a\v-r /etc/shadow\n", 1, "control character"},
		"right to left":              {"# \u202e\n", 1, "control character"},
		"byte order mark":            {"\ufeff" + good, 1, "control character"},
		"not UTF-8":                  {good + "# \xff\n", 2, "UTF-8"},
		"name in Cyrillic":           {"іdna==3.7" + hash + "\n", 1, "not of the form"},
		"comment before the rest":    {"idna==3.7 # \\\n" + hash + "\n", 1, "has no hash"},
		"comment in a continuation":  {"idna==3.7 \\ # x\n" + hash + "\n", 1, "a comment follows a backslash"},
		"continued by nothing":       {"idna==3.7" + hash + " \\\n\n-r /etc/shadow\n", 2, "has no text"},
		"continued by an option":     {"idna==3.7" + hash + " \\\n-r /etc/shadow\n", 2, "option"},
		"last line":                  {good + "idna==3.8" + hash + " \\", 2, "ends with a backslash"},
		"long line":                  {"#" + strings.Repeat("a", 1<<17) + "\n", 1, "longer than"},
		"large file":                 {strings.Repeat("#\n", 3<<20), 0, "larger than"},
		"many packages":              {strings.Repeat(good, 5001), 5001, "more than 5000 packages"},
		"many hashes":                {"idna==3.7" + strings.Repeat(hash, 700) + strings.Repeat(" \\\n"+strings.Repeat(hash, 700), 2) + "\n", 1, "more than 2000 hashes"},
	}
}

// uvLock returns a lock of uv in which the table of the package idna has the given lines. These begin in line 13.
func uvLock(lines ...string) string {
	return `version = 1
revision = 3
requires-python = ">=3.11"

[[package]]
name = "mine"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "idna" },
]

[[package]]
` + strings.Join(lines, "\n") + "\n"
}

const (
	idnaName    = `name = "idna"`
	idnaVersion = `version = "3.7"`
	idnaSource  = `source = { registry = "https://index.example/simple" }`
	idnaWheel   = `wheels = [ { url = "https://files.example/idna-3.7-py3-none-any.whl", hash = "sha256:` + sum + `", size = 1 } ]`
)

func hostileUV() map[string]hostile {
	idna := func(source string) string { return uvLock(idnaName, idnaVersion, source, idnaWheel) }
	wheel := func(wheel string) string {
		return uvLock(idnaName, idnaVersion, idnaSource, "wheels = [", "    "+wheel+",", "]")
	}
	depends := func(dependency string) string {
		return uvLock(idnaName, idnaVersion, idnaSource, idnaWheel, "dependencies = [", "    "+dependency+",", "]")
	}
	many := func(form string) string {
		var b strings.Builder
		for n := range 1000 {
			fmt.Fprintf(&b, form, n)
		}
		return b.String()
	}
	top := func(line string) string { return strings.Replace(idna(idnaSource), "revision = 3", line, 1) }
	return map[string]hostile{
		"git":                         {idna(`source = { git = "https://evil.example/x?rev=main#0123" }`), 16, `is not an index ("git")`},
		"URL":                         {idna(`source = { url = "https://evil.example/x.tar.gz" }`), 16, `is not an index ("url")`},
		"path":                        {idna(`source = { path = "/etc/shadow" }`), 16, `is not an index ("path")`},
		"directory":                   {idna(`source = { directory = "../x" }`), 16, "is not an index"},
		"editable":                    {idna(`source = { editable = "x" }`), 16, "is not an index"},
		"virtual":                     {idna(`source = { virtual = "../x" }`), 16, "is not an index"},
		"a second project":            {idna(`source = { editable = "." }`), 13, "more than one project"},
		"two sources":                 {idna(`source = { registry = "https://index.example/simple", git = "https://evil.example/x" }`), 16, "is not an index"},
		"own folder and git":          {idna(`source = { virtual = ".", git = "https://evil.example/x" }`), 16, "is not an index"},
		"unknown source":              {idna(`source = { torrent = "x" }`), 16, "is not an index"},
		"no source":                   {uvLock(idnaName, idnaVersion, idnaWheel), 13, "is not an index"},
		"index in a folder":           {idna(`source = { registry = "../wheels" }`), 16, "not a web address"},
		"index in a file":             {idna(`source = { registry = "file:///srv/wheels" }`), 16, "not a web address"},
		"index of a type":             {idna(`source = { registry = ["https://index.example"] }`), 16, "is not an index"},
		"source as text":              {idna(`source = "https://index.example"`), 16, "not valid"},
		"escaped key":                 {idna(`source = { "\u0067it" = "https://evil.example/x" }`), 16, `"git"`},
		"wheel in a file":             {wheel(`{ url = "file:///x.whl", hash = "sha256:` + sum + `" }`), 17, "not at a web address"},
		"wheel in a path":             {wheel(`{ path = "x.whl", hash = "sha256:` + sum + `" }`), 17, "not at a web address"},
		"wheel without hash":          {wheel(`{ url = "https://files.example/idna.whl" }`), 18, "no SHA-256 hash"},
		"wheel with MD5":              {wheel(`{ url = "https://files.example/idna.whl", hash = "md5:0123" }`), 18, "no SHA-256 hash"},
		"wheel with short hash":       {wheel(`{ url = "https://files.example/idna.whl", hash = "sha256:0123" }`), 18, "no SHA-256 hash"},
		"lines in a hash":             {wheel(`{ url = "https://files.example/idna.whl", hash = "sha256:` + sum + `\n-r /etc/shadow" }`), 18, "no SHA-256 hash"},
		"wheels of a type":            {uvLock(idnaName, idnaVersion, idnaSource, `wheels = "x"`), 17, "not valid"},
		"source distribution in file": {uvLock(idnaName, idnaVersion, idnaSource, `sdist = { path = "x.tar.gz" }`, idnaWheel), 17, "source distribution"},
		"lines in a name":             {uvLock(`name = "idna\n-r /etc/shadow"`, idnaVersion, idnaSource, idnaWheel), 13, "not the name"},
		"option as a name":            {uvLock(`name = "--index-url"`, idnaVersion, idnaSource, idnaWheel), 13, "not the name"},
		"path as a name":              {uvLock(`name = "../idna"`, idnaVersion, idnaSource, idnaWheel), 13, "not the name"},
		"no name":                     {uvLock(idnaVersion, idnaSource, idnaWheel), 13, "not the name"},
		"lines in a version":          {uvLock(idnaName, `version = "3.7\n--index-url x"`, idnaSource, idnaWheel), 15, "not an exact version"},
		"range as a version":          {uvLock(idnaName, `version = ">=3"`, idnaSource, idnaWheel), 15, "not an exact version"},
		"no version":                  {uvLock(idnaName, idnaSource, idnaWheel), 13, "not an exact version"},
		"number as a version":         {uvLock(idnaName, `version = 3`, idnaSource, idnaWheel), 15, "not valid"},
		"dependency's name":           {depends(`{ name = "x @ file:/x" }`), 19, "not a dependency"},
		"dependency's extra":          {depends(`{ name = "idna", extra = ["a]b"] }`), 19, "not a dependency"},
		"dependency's marker":         {depends(`{ name = "idna", marker = "__import__('os')" }`), 19, "marker"},
		"dependency's group":          {depends(`{ name = "idna", marker = "extra == 'group-4-mine-dev'" }`), 19, "conflicts"},
		"dependency of a type":        {depends(`"idna"`), 19, "not valid"},
		"other version of the format": {strings.Replace(idna(idnaSource), "version = 1", "version = 2", 1), 1, "only version 1"},
		"no version of the format":    {strings.Replace(idna(idnaSource), "version = 1", "", 1), 0, "only version 1"},
		"Python's version":            {strings.Replace(idna(idnaSource), ">=3.11", "$(id)", 1), 3, "does not state versions"},
		"no project":                  {strings.Replace(idna(idnaSource), `virtual = "."`, `registry = "https://index.example"`, 1), 0, "has no project"},
		"empty":                       {"", 0, "only version 1"},
		"not TOML":                    {top(`-r /etc/shadow`), 2, "not valid"},
		"key twice":                   {top(`version = 1`), 2, "not valid"},
		"text of several lines":       {top(`x = """`), 2, "does not end in its line"},
		"literal of several lines":    {top(`x = '''`), 2, "does not end in its line"},
		"open text":                   {top(`x = "\"`), 2, "does not end in its line"},
		"nested arrays":               {top("x = " + strings.Repeat("[", 5000)), 2, "too deeply"},
		"nested arrays in lines":      {top("x = [" + strings.Repeat("[\n", 5000)), 17, "too deeply"},
		"nested tables":               {top("x = " + strings.Repeat("{a=", 5000)), 2, "too deeply"},
		"nested keys":                 {top(strings.Repeat("a.", 5000) + "a = 1"), 2, "too deeply"},
		"keys of a package":           {idna(idnaSource) + many("k%d = 1\n"), 270, "too many keys"},
		"keys of a table":             {top("x = { " + many("k%d=1,") + " }"), 2, "too many keys"},
		"tables of a package":         {idna(idnaSource) + many("[package.t%d]\n"), 82, "too many keys"},
		"tables":                      {top(many("[t%d]\n")), 66, "too many keys"},
		"inline packages":             {"version = 1\npackage = [ { name = \"mine\", source = { virtual = \".\" } } ]\n", 0, "does not begin with a line"},
		"header with spaces":          {strings.Replace(idna(idnaSource), "[[package]]", "[[ package ]]", 1), 0, "does not begin with a line"},
		"control character":           {top("# \x1b[2J"), 2, "control character"},
		"not UTF-8":                   {top("# \xff"), 2, "UTF-8"},
		"long line":                   {top("# " + strings.Repeat("a", 1<<17)), 2, "longer than"},
		"large file":                  {strings.Repeat("#\n", 3<<20), 0, "larger than"},
		"many packages":               {idna(idnaSource) + strings.Repeat("[[package]]\n", 5000), 5016, "more than 5000 packages"},
	}
}

func TestParse_hostile(t *testing.T) {
	t.Parallel()
	count := 0
	for file, locks := range map[string]map[string]hostile{"requirements.txt": hostileRequirements(), "app/uv.lock": hostileUV()} {
		for name, c := range locks {
			count++
			t.Run(file+"/"+name, func(t *testing.T) {
				t.Parallel()
				_, err := pylock.Parse(file, []byte(c.text))
				var refusal *pylock.Error
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, c.line, refusal.Line, "%v", err)
				require.Contains(t, refusal.Problem, c.want)
				require.NotEmpty(t, refusal.Remedy)
				require.NotContains(t, err.Error(), "\n")
				require.Less(t, len(err.Error()), 1000)
			})
		}
	}
	require.Greater(t, count, 60)
}

// Some faults appear only when the packages for an interpreter are chosen.
func TestLock_Pins_refusals(t *testing.T) {
	t.Parallel()
	other := "\n[[package]]\n" + idnaName + "\nversion = \"3.8\"\n" + idnaSource + "\n" + idnaWheel + "\n"
	full := uvLock(idnaName, idnaVersion, idnaSource, idnaWheel)
	for name, c := range map[string]struct {
		file, text string
		line       int
		want       string
	}{
		"two versions":     {"r.txt", good + "Idna==3.8" + hash + "\n", 2, "idna is locked to 3.8 and, in line 1, to 3.7"},
		"other Python":     {"uv.lock", strings.Replace(full, ">=3.11", ">=3.13,<4", 1), 0, "the lock is for Python \">=3.13,<4\", and the node has 3.12.4"},
		"no wheel":         {"uv.lock", uvLock(idnaName, idnaVersion, idnaSource), 13, "idna 3.7 has no wheel"},
		"no such package":  {"uv.lock", strings.Replace(full, `name = "idna" }`, `name = "other" }`, 1), 10, "no package for the dependency on other"},
		"no such version":  {"uv.lock", strings.Replace(full, `name = "idna" }`, `name = "idna", version = "9" }`, 1), 10, "no package"},
		"several packages": {"uv.lock", full + other, 10, "more than one package"},
		"two versions in a graph": {"uv.lock", strings.Replace(full, `    { name = "idna" },`,
			`    { name = "idna", version = "3.7" }, { name = "idna", version = "3.8" },`, 1) + other, 19, "both apply"},
	} {
		lock, err := pylock.Parse(c.file, []byte(c.text))
		require.NoError(t, err, name)
		_, err = lock.Pins(linux())
		var refusal *pylock.Error
		require.True(t, errors.As(err, &refusal), "%s: %v", name, err)
		require.Equal(t, c.line, refusal.Line, fmt.Sprint(name, ": ", err))
		require.Contains(t, refusal.Problem, c.want, name)
	}
}

// The memory that a hostile lock takes is a multiple of its size, and not of the square of its size.
func TestParse_boundedMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the whole process
	const n = 40_000
	for file, text := range map[string]string{
		"requirements.txt": "idna==3.7 \\\n" + strings.Repeat("a \\\n", n) + "b\n",
		"uv.lock":          strings.Replace(uvLock(idnaName, idnaVersion, idnaSource, idnaWheel), "    { name", strings.Repeat("{name=\"idna\",marker=\"os_name=='a'\"},\n", n)+"    { name", 1),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = pylock.Parse(file, []byte(text))
		runtime.ReadMemStats(&after)
		const most = 256 << 20
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most), file)
	}
}
