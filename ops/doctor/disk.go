package doctor

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

func disk(ctx context.Context, d *doctor) (finding, error) {
	isFull, err := d.Server.IsFull(ctx)
	switch {
	case err != nil:
		return finding{}, err
	case isFull:
		return finding{ops.Fail, "the server's disk is full: it has no room for a temporary file of a megabyte", words.MakeRoom}, nil
	}
	return finding{value: "not full, as far as a temporary file of a megabyte tells"}, nil
}

func fileDisk(_ context.Context, d *doctor) (finding, error) {
	free, ok := d.File.Room()
	if !ok {
		return finding{level: ops.Skipped, value: "not known for this file, or on this system"}, nil
	}
	return finding{words.LevelOf(-free, -reader.LittleRoom, -reader.TooLittleRoom), fmt.Sprintf("the disk of the file has room for %d MB", free>>20),
		"make room on it: no job is written, claimed or settled on a full disk"}, nil
}
