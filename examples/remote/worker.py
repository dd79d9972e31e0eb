"""A worker in Python, with its standard library alone. It counts words in texts.

    GATEWAYS="http://one:8080 http://two:8080" TOKEN=secret python3 worker.py
"""
import http.client, json, os, signal, socket, threading, time, traceback
import urllib.error, urllib.request

GATEWAYS = os.environ["GATEWAYS"].split()
TOKEN = os.environ["TOKEN"]
WORKER = f"python-{socket.gethostname()}-{os.getpid()}"
LEASE = 2  # seconds: how long after a crash a job runs again
HANDLERS = 4  # that run at once

stopping = threading.Event()
busy = set()  # the IDs of the jobs that run here


def handle(payload, ended):
    """Counts words. ended is set when the outcome is no longer wanted."""
    ended.wait(payload["ms"] / 1000)
    return {"words": len(payload["text"].split()), "by": "python"}


def call(path, body, timeout=10, until=float("inf")):
    """Asks the gateways one after the other until one answers. None if it is too late."""
    while time.monotonic() < until:
        gateway = GATEWAYS[0]
        request = urllib.request.Request(gateway + "/v1/" + path, json.dumps(body).encode(), {
            "Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
        pause = 0.2
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as err:
            if err.code == 429:
                pause = float(err.headers.get("Retry-After", 1))
            elif err.code < 500:  # it would be so again
                print(f"{WORKER}: {path}: {err.read().decode()}", flush=True)
                if path == "settle":  # only this job is lost to this worker: it runs again
                    return {"lost": []}
                os._exit(1)
        except (OSError, ValueError, http.client.HTTPException):
            pass  # cut off, slow, or half an answer
        if GATEWAYS[0] == gateway:
            GATEWAYS.append(GATEWAYS.pop(0))
        time.sleep(pause)


def work():
    """Claims jobs, one after the other, and runs each."""
    while not stopping.is_set():
        body = {"queues": ["texts"], "worker": WORKER, "lease_ns": LEASE * 10**9}
        for job in call("claim", body | {"wait_ns": 20 * 10**9}, timeout=30)["jobs"]:
            busy.add(job["id"])
            run(job)
            busy.discard(job["id"])


def run(job):
    """Runs the handler of a job, extends the lease meanwhile, and settles the job."""
    proof = {"id": job["id"], "fence": job["fence"], "worker": WORKER}  # that this worker holds it
    ended, outcome = threading.Event(), {}
    handler = threading.Thread(target=run_handler, args=(job, ended, outcome))
    handler.start()
    until = time.monotonic() + LEASE
    while handler.join(LEASE / 3) or handler.is_alive():
        began = time.monotonic()
        answer = call("extend", {"lease_ns": LEASE * 10**9, "jobs": [proof]}, LEASE / 3, until)
        if answer is None or answer["lost"] or answer["asked"]:
            ended.set()
            handler.join()
            if answer and answer["asked"]:  # somebody has cancelled the job
                outcome = {"action": "cancel"}
        until = began + LEASE
    answer = {"locked": [proof]}
    while answer.get("locked"):  # a transaction has locked the job: try again
        answer = call("settle", {"outcomes": [proof | outcome]})
    if answer["lost"]:
        print(f"{WORKER}: job {job['id']} is held elsewhere, void here", flush=True)


def run_handler(job, ended, outcome):
    try:
        outcome.update(action="done", output=handle(job["payload"], ended))
    except Exception as err:
        outcome.update(action="retry", attempt=job["attempt"], error=str(err) or repr(err),
                       stack=traceback.format_exc())


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stopping.set())
for _ in range(HANDLERS):
    threading.Thread(target=work, daemon=True).start()
print(f"{WORKER}: working", flush=True)
stopping.wait()
while busy:  # the threads that wait for jobs end with the program
    time.sleep(0.05)
