package weaviate

import (
	"context"
	"errors"
	"fmt"

	"github.com/weaviate/weaviate/entities/models"
)

// readTenant notes whether the config's tenant exists in a collection.
func (s *Store) readTenant(ctx context.Context, c *collection) error {
	if s.cfg.Tenant == "" {
		c.tenant = true
		return nil
	}
	tenants, err := s.tenants(ctx, c.name)
	if err != nil {
		return err
	}
	for _, t := range tenants {
		c.tenant = c.tenant || t.Name == s.cfg.Tenant
	}
	return nil
}

func (s *Store) tenants(ctx context.Context, name string) ([]models.Tenant, error) {
	var tenants []models.Tenant
	err := s.call(ctx, "tenants of "+name, func(ctx context.Context) (err error) {
		tenants, err = s.schema.TenantsGetter().WithClassName(name).Do(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("weaviate: tenants of %s: %w", name, err)
	}
	return tenants, nil
}

// createTenant makes the config's tenant in a collection that has none of this name. To make it again changes nothing.
func (s *Store) createTenant(ctx context.Context, c *collection) error {
	err := s.call(ctx, "tenant "+s.cfg.Tenant, func(ctx context.Context) error {
		return s.schema.TenantsCreator().WithClassName(c.name).WithTenants(models.Tenant{Name: s.cfg.Tenant}).Do(ctx)
	})
	if err != nil {
		return fmt.Errorf("weaviate: collection %s: create tenant %s: %w", c.name, s.cfg.Tenant, err)
	}
	return nil
}

// Drop implements [store.Store]. With a tenant, the others of the corpus stay; the last one takes the collection along.
func (s *Store) Drop(ctx context.Context, corpus string) error {
	c, err := s.refresh(ctx, corpus)
	if err != nil {
		return fmt.Errorf("weaviate: drop corpus %s: %w", corpus, err)
	}
	if c == nil {
		return nil
	}
	defer s.forget(corpus)
	if s.cfg.Tenant != "" {
		tenants, err := s.tenants(ctx, c.name)
		if err != nil {
			return err
		}
		if len(tenants) > 1 {
			err := s.call(ctx, "drop tenant", func(ctx context.Context) error {
				return s.schema.TenantsDeleter().WithClassName(c.name).WithTenants(s.cfg.Tenant).Do(ctx)
			})
			if err != nil {
				return fmt.Errorf("weaviate: drop tenant %s of corpus %s: %w", s.cfg.Tenant, corpus, err)
			}
			return nil
		}
	}
	err = s.call(ctx, "drop "+c.name, func(ctx context.Context) error {
		return s.schema.ClassDeleter().WithClassName(c.name).Do(ctx)
	})
	var answer *statusError
	if errors.As(err, &answer) && isMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("weaviate: drop corpus %s: %w", corpus, err)
	}
	return nil
}
