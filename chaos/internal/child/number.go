package child

import (
	"encoding/json"

	"github.com/errandhq/errand/queue"
)

// numberOf is the number that a job's payload carries.
func numberOf(job *queue.Job) (int, error) {
	var args struct {
		Number int `json:"number"`
	}
	err := json.Unmarshal(job.Payload, &args)
	return args.Number, err
}
