package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/egress"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/oidc"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
)

// Config holds auth's own settings.
type Config struct {
	JWTHours       int           `env:"SERVICE_JWT_HOURS, default=8" doc:"lifetime of an access token, in hours"`
	KeyDays        int           `env:"SERVICE_AUTH_KEY_DAYS, default=30" doc:"age at which a signing key is replaced, in days"`
	AdminPassword  secret.String `env:"SERVICE_BOOTSTRAP_ADMIN_PASSWORD" doc:"password of the first admin; if empty, a random one is generated and shown once"`
	HashParallel   int           `env:"SERVICE_AUTH_HASH_PARALLEL, default=0" doc:"maximum number of passwords hashed at the same time; 0 means half of the processors, but at least one"`
	HashMemoryKiB  int           `env:"SERVICE_AUTH_HASH_MEMORY_KIB, default=19456" doc:"memory that argon2id uses for a new password hash, in KiB"`
	HashIterations int           `env:"SERVICE_AUTH_HASH_ITERATIONS, default=2" doc:"number of argon2id passes for a new password hash"`
	// EndedDays is how long expired sessions, refresh tokens, grants and device codes are kept.
	EndedDays float64 `env:"SERVICE_AUTH_ENDED_DAYS, default=1" doc:"days until an expired session, refresh token, grant or device code is deleted; until then, the use of a stolen token is recognized; 0 keeps it forever"`
	OIDC      oidc.Settings
	Egress    egress.Config
}

// maxJWTHours is the maximum of SERVICE_JWT_HOURS: the lifetime of a refresh token.
const maxJWTHours = 30 * 24

// maxKeyDays is the maximum of SERVICE_AUTH_KEY_DAYS.
const maxKeyDays = 366

// accessLife returns the lifetime of an API access token.
func (c *Config) accessLife() time.Duration { return time.Duration(c.JWTHours) * time.Hour }

// minPassword is the minimum length of the first admin's password, in bytes.
const minPassword = 8

// Validate returns the error of the first check that fails. The error names the setting.
func (c *Config) Validate() error {
	if err := retention.CheckDays("SERVICE_AUTH_ENDED_DAYS", c.EndedDays); err != nil {
		return err
	}
	switch {
	case c.JWTHours < 1 || c.JWTHours > maxJWTHours:
		return fmt.Errorf("SERVICE_JWT_HOURS is %d but must be between 1 and %d", c.JWTHours, maxJWTHours)
	case c.KeyDays < 1 || c.KeyDays > maxKeyDays:
		return fmt.Errorf("SERVICE_AUTH_KEY_DAYS is %d but must be between 1 and %d", c.KeyDays, maxKeyDays)
	case c.HashParallel < 0 || c.HashMemoryKiB < 64 || c.HashIterations < 1:
		return errors.New("SERVICE_AUTH_HASH_PARALLEL must be at least 0, SERVICE_AUTH_HASH_ITERATIONS at least 1, and SERVICE_AUTH_HASH_MEMORY_KIB at least 64")
	case !c.AdminPassword.IsZero() && len(c.AdminPassword.Reveal()) < minPassword:
		return fmt.Errorf("SERVICE_BOOTSTRAP_ADMIN_PASSWORD must have at least %d bytes", minPassword)
	case len(c.AdminPassword.Reveal()) > password.MaxBytes:
		return fmt.Errorf("SERVICE_BOOTSTRAP_ADMIN_PASSWORD must have at most %d bytes", password.MaxBytes)
	}
	return nil
}
