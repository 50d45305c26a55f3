#!/bin/sh
# An external worker in nothing but the shell, curl and sed: what stock.mjs is, for machines without Node.
# One task at a time, which takes less than its lease, and sed for JSON: enough for answers whose fields are known.

lease_ms=3000
poll_ms=2000
tries=20
diary=$(echo "$DIARY" | sed "s/PID/$$/")
trap 'stopping=yes' TERM

# post ADDRESS BODY: prints the status, then the answer.
post() {
    curl --noproxy '*' --silent --show-error --max-time 15 --header 'content-type: application/json' \
        --header "x-api-key: $DEMO_API_KEY" --data "$2" --write-out '\n%{http_code}' "$1"
}

status() { tail -n 1; }

# field NAME: the value of the field in the JSON on stdin.
field() { sed -n "s/.*\"$1\" *: *\"\{0,1\}\([^\",}]*\).*/\1/p"; }

note() { printf '["%s", "%s", %s]\n' "$1" "$task_id" "$token" >>"$diary"; }

# report VERB FIELDS: the same report twice has the same answer, so it is sent again while the server is away.
report() {
    left=$tries
    while [ "$left" -gt 0 ]; do
        answer=$(post "$API_URL/v1/external-tasks/$task_id/$1" \
            "{\"worker_id\": \"$WORKER\", \"fencing_token\": $token, $2}" | status)
        case $answer in 000 | 429 | 5?? | '') ;; *) return ;; esac
        left=$((left - 1))
        sleep 0.2
    done
}

act() {
    note begun
    step=${task_type#order.}
    done=$(post "$OUTSIDE_URL/$step" "{\"order\": \"$order\", \"key\": \"$task_id\", \"fencing_token\": $token}")
    if [ "$(echo "$done" | status)" != 200 ]; then
        report fail '"error": "the warehouse did not answer", "retry_after_ms": 1000'
        return
    fi
    note written
    sleep "$(printf '%d.%03d' $((PAUSE_MS / 1000)) $((PAUSE_MS % 1000)))"
    note reporting
    report complete "\"variables\": {\"${step}_reference\": \"$(echo "$done" | field reference)\"}"
    case $answer in 200) note accepted ;; 409) note refused ;; esac
}

while [ -z "$stopping" ]; do
    found=$(post "$API_URL/v1/external-tasks/fetch-and-lock" "{\"worker_id\": \"$WORKER\",
        \"task_types\": [\"order.reserve\", \"order.release\"], \"max_tasks\": 1, \"lock_duration_ms\": $lease_ms,
        \"wait_ms\": $poll_ms}")
    if [ "$(echo "$found" | status)" != 200 ]; then
        echo "fetch: $found"
        sleep 0.5
        continue
    fi
    task_id=$(echo "$found" | field task_id)
    [ -n "$task_id" ] || continue
    task_type=$(echo "$found" | field task_type)
    token=$(echo "$found" | field fencing_token)
    order=$(echo "$found" | field business_key)
    act
done
