"""/event-subscription: what waits for a message or a signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter

from app.camunda.listing import AS_ID, TENANTS, Listing, equal
from app.camunda.lists import serve_list
from app.camunda.route import CamundaRoute

router = APIRouter(prefix="/engine-rest/event-subscription", route_class=CamundaRoute)

SUBSCRIPTIONS: Final = Listing(
    view="camunda_event_subscriptions",
    key="subscription_id",
    columns=("subscription_id", "kind", "name", "token_id", "instance_id", "node", "opened_at"),
    hidden=("topics",),
    filters=(
        equal("eventSubscriptionId", "subscription_id", AS_ID),
        equal("eventName", "name"),
        equal("eventType", "kind"),
        equal("executionId", "token_id", AS_ID),
        equal("processInstanceId", "instance_id", AS_ID),
        equal("activityId", "node"),
        TENANTS,
    ),
    sorts={"created": "opened_at", "tenantId": "subscription_id"},
)


def shown_subscription(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["subscription_id"],
        "eventType": row["kind"],
        "eventName": row["name"],
        "executionId": row["token_id"],
        "processInstanceId": row["instance_id"],
        "activityId": row["node"],
        "createdDate": row["opened_at"],
        "tenantId": None,
    }


serve_list(router, SUBSCRIPTIONS, shown_subscription, ["GET"])
