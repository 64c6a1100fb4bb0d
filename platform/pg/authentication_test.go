package pg_test

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// impostor listens like a Postgres server and sends the given authentication request to every client. It returns its
// address and a channel that receives the first message of each client after the startup message, or nil if the client
// sends none.
func impostor(t *testing.T, request pgproto3.BackendMessage) (address string, received <-chan pgproto3.FrontendMessage) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	first, done := make(chan pgproto3.FrontendMessage, 16), make(chan struct{})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			client := pgproto3.NewBackend(conn, conn)
			if _, err := client.ReceiveStartupMessage(); err == nil {
				client.Send(request)
				if client.Flush() == nil && client.SetAuthType(authType(request)) == nil {
					message, _ := client.Receive()
					first <- message
				}
			}
			_ = conn.Close()
		}
	}()
	return l.Addr().String(), first
}

func authType(request pgproto3.BackendMessage) uint32 {
	switch request.(type) {
	case *pgproto3.AuthenticationCleartextPassword:
		return pgproto3.AuthTypeCleartextPassword
	case *pgproto3.AuthenticationMD5Password:
		return pgproto3.AuthTypeMD5Password
	default:
		return pgproto3.AuthTypeOk
	}
}

func TestPasswordIsNotSentToImpostor(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]pgproto3.BackendMessage{
		"password in the clear": &pgproto3.AuthenticationCleartextPassword{},
		"MD5":                   &pgproto3.AuthenticationMD5Password{Salt: [4]byte{1, 2, 3, 4}},
		"no authentication":     &pgproto3.AuthenticationOk{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, received := impostor(t, request)
			url := "postgres://jobs:the-password@" + address + "/signalbox?sslmode=disable"

			_, err := pg.Open(pgtest.Context(t), pg.Config{URL: secret.New(url)}, "jobs", quiet())
			require.ErrorContains(t, err, "scram-sha-256")
			requireNothingSent(t, <-received)

			_, err = pg.Connect(pgtest.Context(t), url, nil)
			require.ErrorContains(t, err, "scram-sha-256")
			requireNothingSent(t, <-received)
		})
	}
}

// requireNothingSent fails if the message is anything but the end of the connection.
func requireNothingSent(t *testing.T, message pgproto3.FrontendMessage) {
	t.Helper()
	if _, ended := message.(*pgproto3.Terminate); message != nil && !ended {
		t.Fatalf("the client must send nothing, but has sent %#v", message)
	}
}

func TestConnect_otherAuthenticationInURL(t *testing.T) {
	t.Parallel()
	address, received := impostor(t, &pgproto3.AuthenticationCleartextPassword{})
	_, err := pg.Connect(pgtest.Context(t), "postgres://jobs:the-password@"+address+"/signalbox?sslmode=disable&require_auth=password", nil)
	require.Error(t, err)
	require.Equal(t, &pgproto3.PasswordMessage{Password: "the-password"}, <-received)
}
