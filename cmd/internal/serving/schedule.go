package serving

import (
	"time"

	"github.com/adhocore/gronx"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
)

// cron is a schedule in a time zone.
type cron struct {
	expression string
	zone       *time.Location
}

// Next implements coordinator.Schedule.
func (c cron) Next(t time.Time) time.Time {
	next, err := gronx.NextTickAfter(c.expression, t.In(c.zone), false)
	if err != nil {
		return time.Time{} // an expression that no date ever meets, such as 30 February
	}
	return next
}

// scheduleOf returns the configured schedule; nil if there is none.
func scheduleOf(cfg *config.Config) (coordinator.Schedule, error) {
	expression := cfg.Build.Schedule
	if expression == "" {
		return nil, nil
	}
	if !gronx.IsValid(expression) {
		return nil, api.Usagef("such as 0 2 * * * for two o'clock each night", "build.schedule is %q, which is no cron expression of five fields", expression)
	}
	zone, err := time.LoadLocation(cfg.Build.TimeZone)
	if err != nil {
		return nil, api.Usagef("", "build.time_zone: %w", err)
	}
	return cron{expression, zone}, nil
}
