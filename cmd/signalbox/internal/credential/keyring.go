package credential

import (
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	// service is the name under which the keyring of the operating system has the logins.
	service = "signalbox"
	// probeService is the name of the value of a probe. It differs, because a context can have any name.
	probeService = "signalbox-probe"
)

// keyringTimeout is how long the keyring may take. It can wait for a person who unlocks it, or for ever.
const keyringTimeout = 10 * time.Second

// ring is the keyring of an operating system. Get and Delete return keyring.ErrNotFound for a missing value.
type ring interface {
	Set(service, name, value string) error
	Get(service, name string) (string, error)
	Delete(service, name string) error
}

// osRing is the keyring of this machine: the Secret Service on Linux, the Keychain on macOS.
type osRing struct{}

func (osRing) Set(service, name, value string) error    { return keyring.Set(service, name, value) }
func (osRing) Get(service, name string) (string, error) { return keyring.Get(service, name) }
func (osRing) Delete(service, name string) error        { return keyring.Delete(service, name) }

// system is a store in a keyring, which may take the given time for each value.
type system struct {
	ring    ring
	timeout time.Duration
}

func newSystem() system { return system{ring: osRing{}, timeout: keyringTimeout} }

func (system) Kind() string { return Keyring }

func (s system) Get(context string) (Credential, error) {
	text, err := s.within(func() (string, error) { return s.ring.Get(service, context) })
	if errors.Is(err, keyring.ErrNotFound) {
		return Credential{}, ErrNone
	}
	if err != nil {
		return Credential{}, fmt.Errorf("read the login from the keyring: %w; unlock it, or run: signalbox login --credential-store file", err)
	}
	return decode(text)
}

func (s system) Set(context string, c Credential) error {
	text, err := encode(c)
	if err != nil {
		return err
	}
	if _, err := s.within(func() (string, error) { return "", s.ring.Set(service, context, text) }); err != nil {
		return fmt.Errorf("store the login in the keyring: %w; unlock it, or run: signalbox login --credential-store file", err)
	}
	return nil
}

func (s system) Delete(context string) error {
	_, err := s.within(func() (string, error) { return "", s.ring.Delete(service, context) })
	if err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return fmt.Errorf("delete the login from the keyring: %w", err)
	}
	return nil
}

// probe stores, reads and deletes a value, to learn whether the keyring works.
func (s system) probe() error {
	const name, value = "probe", "probe"
	_, err := s.within(func() (string, error) {
		if err := s.ring.Set(probeService, name, value); err != nil {
			return "", err
		}
		got, err := s.ring.Get(probeService, name)
		if err == nil && got != value {
			err = errors.New("the keyring returned another value than the stored one")
		}
		return "", errors.Join(err, s.ring.Delete(probeService, name))
	})
	return err
}

// within calls fn, but waits for it only for a limited time: the keyring has no deadline of its own. A call that takes
// longer ends with the process.
func (s system) within(fn func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := fn()
		done <- result{text, err}
	}()
	timer := clock.Real().NewTimer(s.timeout)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.text, r.err
	case <-timer.C():
		return "", fmt.Errorf("the keyring has not responded for %s", s.timeout)
	}
}

// Open returns the store of the given kind. Dir is the folder of the file.
func Open(kind, dir string) (Store, error) {
	switch kind {
	case Keyring:
		return newSystem(), nil
	case File:
		return NewFile(dir), nil
	}
	return nil, fmt.Errorf("%q is not a credential store; use keyring or file", kind)
}

// Choose returns the store for a new login: the given kind, or the keyring if it works, or otherwise the file; reason is
// then why the keyring cannot be used. An error reports that the given kind does not work.
func Choose(kind, dir string) (s Store, reason, err error) { return choose(newSystem(), kind, dir) }

func choose(keys system, kind, dir string) (s Store, reason, err error) {
	switch kind {
	case "":
		if err := keys.probe(); err != nil {
			return NewFile(dir), err, nil
		}
		return keys, nil, nil
	case Keyring:
		if err := keys.probe(); err != nil {
			return nil, nil, fmt.Errorf("the keyring does not work: %w; unlock it, or choose the file with --credential-store file", err)
		}
		return keys, nil, nil
	}
	s, err = Open(kind, dir)
	return s, nil, err
}
